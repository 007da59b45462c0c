//! The nearest rows over every layout of tiers are those Lance's own flat search finds in a plain table of
//! the live rows, at the same distances (P13), whether the base has an index or not; no hidden row is among
//! them and none takes the place of a live one (P4).

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int32Type};
use arrow_array::{Array, Float32Array, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use futures::TryStreamExt;
use headwater::{Columns, Metric, QueryRequest, ReadLevel, ReadSnapshot, Table, VectorQuery, VectorSearch};
use lance::Dataset;
use lance::index::DatasetIndexExt;
use lance::index::vector::VectorIndexParams;
use lance_index::IndexType;
use lance_linalg::distance::DistanceType;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::random_sql::layout::{DIMENSION, Key, Layout, Tiers};
use crate::support::options;

const COLUMNS: [&str; 5] = ["id", "n", "name", "flag", "meta"];
const CLOSE: f32 = 1e-5;
/// As many rows as a LanceDB client asks for when it wants all.
const NO_LIMIT: u64 = i64::MAX as u64;

/// Conditions on rows. The last can fail on a row, so no hidden row may see it.
const FILTERS: [&str; 6] = [
    "n > 3",
    "small IN (1, 2) OR flag",
    "meta.a = 2",
    "name LIKE 'a%' AND `Mixed Case` < 7",
    "id = 7 OR id = 12 OR id = 33",
    "100 / (id + 1) > 5",
];

/// What is looked for.
#[derive(Clone, Debug)]
struct Search {
    vectors: Vec<Vec<f32>>,
    metric: Metric,
    filter: Option<&'static str>,
    postfilter: bool,
    bounds: (Option<f32>, Option<f32>),
    limit: u64,
    offset: u64,
}

/// A row found: its place among the query vectors, its values, its distance.
type Found = (i32, String, f32);

impl Search {
    fn random(chance: &mut SmallRng, metric: Metric) -> Self {
        let count = if chance.random_bool(0.2) { 3 } else { 1 };
        let vector = |chance: &mut SmallRng| match chance.random_bool(0.3) {
            true => (0..DIMENSION).map(|_| chance.random_range(-2_i8..3).into()).collect(),
            false => (0..DIMENSION).map(|_| chance.random_range(-2.0..2.0)).collect(),
        };
        let bound = |chance: &mut SmallRng, range: std::ops::Range<f32>| {
            chance.random_bool(0.2).then(|| chance.random_range(range))
        };
        Self {
            vectors: (0..count).map(|_| vector(chance)).collect(),
            metric,
            bounds: (bound(chance, -1.0..1.0), bound(chance, 1.0..8.0)),
            filter: chance.random_bool(0.6).then(|| *FILTERS.choose(chance).unwrap()),
            postfilter: chance.random_bool(0.3),
            limit: *[1, 3, 10, 30, NO_LIMIT].choose(chance).unwrap(),
            offset: *[0, 0, 2].choose(chance).unwrap(),
        }
    }

    fn request(&self, metric: Option<Metric>, search: VectorSearch) -> QueryRequest {
        let nearest = VectorQuery {
            vectors: self.vectors.clone(),
            metric,
            lower_bound: self.bounds.0,
            upper_bound: self.bounds.1,
            postfilter: self.postfilter,
            search,
            ..VectorQuery::default()
        };
        QueryRequest {
            nearest: Some(nearest),
            filter: self.filter.map(str::to_owned),
            columns: Some(Columns::Named(COLUMNS.map(str::to_owned).to_vec())),
            limit: Some(self.limit),
            offset: self.offset,
            ..QueryRequest::default()
        }
    }

    /// All rows of the plain table near to one vector, by Lance's flat search, nearest first.
    async fn plain(&self, plain: &Dataset, vector: &[f32], filter: Option<&str>) -> Vec<Found> {
        let rows = plain.count_rows(None).await.unwrap();
        let mut scanner = plain.scan();
        scanner.nearest("v", &Float32Array::from(vector.to_vec()), rows.max(1)).unwrap();
        scanner.distance_metric(DistanceType::from(self.metric)).use_index(false);
        scanner.distance_range(self.bounds.0, self.bounds.1).prefilter(true);
        scanner.project(&COLUMNS).unwrap();
        if let Some(filter) = filter {
            scanner.filter(filter).unwrap();
        }
        let found: Vec<RecordBatch> = scanner.try_into_stream().await.unwrap().try_collect().await.unwrap();
        // A row without a distance is near to nothing.
        found.iter().flat_map(found_in).filter(|(_, _, distance)| !distance.is_nan()).collect()
    }

    /// Checks what was found near to one vector.
    async fn check(&self, plain: &Dataset, vector: &[f32], found: &[Found]) -> Result<(), String> {
        let all = self.plain(plain, vector, None).await;
        let kept = match self.filter {
            None => all.clone(),
            Some(filter) => self.plain(plain, vector, Some(filter)).await,
        };
        let told =
            |what: &str| Err(format!("{what}\nfound: {found:?}\nkept by the filter: {kept:?}\nall: {all:?}"));
        if !found.is_sorted_by(|one, next| one.2 <= next.2) {
            return told("not nearest first");
        }
        let mut distances: BTreeMap<&str, f32> =
            kept.iter().map(|(_, row, far)| (row.as_str(), *far)).collect();
        for (_, row, distance) in found {
            match distances.remove(row.as_str()) {
                None => return told(&format!("{row} is twice there, hidden, or not wanted")),
                Some(far) if (far - distance).abs() > CLOSE => return told(&format!("{row} is at {far}")),
                Some(_) => {}
            }
        }
        let usize = |rows: u64| usize::try_from(rows).unwrap();
        let (limit, offset) = (usize(self.limit), usize(self.offset));
        if self.filter.is_some() && self.postfilter {
            // Of rows that are equally far, which are among the nearest is not said.
            let edge = all.get(limit.saturating_add(offset) - 1).map_or(f32::INFINITY, |(_, _, far)| *far);
            let count = |within: f32| kept.iter().filter(|(_, _, far)| *far <= within).count();
            let cut = |rows: usize| rows.saturating_sub(offset).min(limit);
            let (least, most) = (cut(count(edge - CLOSE)), cut(count(edge + CLOSE)));
            return match (least..=most).contains(&found.len()) {
                true => Ok(()),
                false => told(&format!("{} rows, not {least} to {most}", found.len())),
            };
        }
        let wanted: Vec<f32> = kept.iter().skip(offset).take(limit).map(|(_, _, far)| *far).collect();
        let equal = wanted.iter().zip(found).all(|(far, (_, _, distance))| (far - distance).abs() <= CLOSE);
        match wanted.len() == found.len() && equal {
            true => Ok(()),
            false => told(&format!("the nearest are at {wanted:?}")),
        }
    }
}

fn found_in(batch: &RecordBatch) -> Vec<Found> {
    let format = FormatOptions::new().with_null("null");
    let text = COLUMNS
        .map(|column| ArrayFormatter::try_new(batch.column_by_name(column).unwrap(), &format).unwrap());
    let distances = batch.column_by_name("_distance").unwrap().as_primitive::<Float32Type>();
    let places = batch.column_by_name("query_index").map(|places| places.as_primitive::<Int32Type>());
    let row = |row| {
        assert!(distances.is_valid(row), "a row without a distance");
        let values: Vec<String> = text.iter().map(|column| column.value(row).to_string()).collect();
        (places.map_or(0, |places| places.value(row)), values.join("|"), distances.value(row))
    };
    (0..batch.num_rows()).map(row).collect()
}

async fn found(snapshot: &ReadSnapshot, request: &QueryRequest) -> Vec<Found> {
    let rows = snapshot.query(request).await.unwrap();
    let names: Vec<String> = rows.schema().fields().iter().map(|field| field.name().clone()).collect();
    let mut wanted = COLUMNS.map(str::to_owned).to_vec();
    wanted.push("_distance".to_owned());
    if request.nearest.as_ref().unwrap().vectors.len() > 1 {
        wanted.insert(0, "query_index".to_owned());
    }
    assert_eq!(names, wanted);
    let rows: Vec<RecordBatch> = rows.try_collect().await.unwrap();
    rows.iter().flat_map(found_in).collect()
}

/// Asks for the nearest rows of many vectors and compares the answers with those of the plain table.
async fn ask(snapshot: &ReadSnapshot, plain: &Dataset, indexed: Option<Metric>, seed: u64, context: &str) {
    let mut chance = SmallRng::seed_from_u64(seed);
    for number in 0..40 {
        let metric = match indexed {
            Some(metric) if number % 4 > 0 => metric,
            _ => *[Metric::L2, Metric::Cosine, Metric::Dot].choose(&mut chance).unwrap(),
        };
        let search = Search::random(&mut chance, metric);
        // Every partition, so that the index misses nothing.
        let mut how = VectorSearch { minimum_nprobes: Some(8), ..VectorSearch::default() };
        how.bypass_index = chance.random_bool(0.1);
        how.refine_factor = chance.random_bool(0.3).then_some(2);
        // The metric of the index is the one when none is asked for.
        let asked = (indexed.unwrap_or(Metric::L2) != metric || chance.random_bool(0.5)).then_some(metric);
        let request = search.request(asked, how);
        let found = found(snapshot, &request).await;
        for (place, vector) in search.vectors.iter().enumerate() {
            let near: Vec<Found> = found.iter().filter(|row| row.0 == place as i32).cloned().collect();
            if let Err(difference) = search.check(plain, vector, &near).await {
                let plan = snapshot.explain_query(&request, true).await.unwrap();
                panic!("{context}, search {number}, vector {place}: {request:?}\n{difference}\n{plan}");
            }
        }
        let places: Vec<i32> = found.iter().map(|row| row.0).collect();
        assert!(places.is_sorted(), "rows of the first vector come first: {places:?}");
    }
}

/// As the writer and as a reader from storage.
async fn ask_both(tiers: &Tiers, indexed: Option<Metric>, seed: u64, context: &str) {
    let plain = Dataset::open(&tiers.plain()).await.unwrap();
    let by_writer = tiers.table.read(ReadLevel::Durable).await.unwrap();
    ask(&by_writer, &plain, indexed, seed, &format!("{context}, writer")).await;
    let reader = Table::open(tiers.table.uri(), options()).await.unwrap();
    let by_reader = reader.read(ReadLevel::Durable).await.unwrap();
    ask(&by_reader, &plain, indexed, seed + 1, &format!("{context}, reader")).await;
}

/// Gives the base an index that misses nothing if all its partitions are searched.
async fn index(tiers: &Tiers, metric: Metric) {
    let mut base = Dataset::open(tiers.table.uri()).await.unwrap();
    let params = VectorIndexParams::ivf_flat(2, metric.into());
    base.create_index(&["v"], IndexType::Vector, None, &params, true).await.unwrap();
    tiers.table.refresh().await.unwrap();
}

fn one(metric: Option<Metric>, limit: u64, search: VectorSearch) -> QueryRequest {
    let vectors = vec![vec![0.3, -0.2, 1.0, 0.5]];
    let nearest = VectorQuery { vectors, metric, search, ..VectorQuery::default() };
    let columns = Some(Columns::Named(COLUMNS.map(str::to_owned).to_vec()));
    QueryRequest { nearest: Some(nearest), limit: Some(limit), columns, ..QueryRequest::default() }
}

async fn uses_index(tiers: &Tiers, request: &QueryRequest) -> bool {
    tiers.table.explain_query(request, false).await.unwrap().contains("index=v_idx")
}

async fn search_all(layout: Layout) {
    let mut tiers = Tiers::build(layout, Key::Id, 7).await;
    let seed = 1_000 + layout as u64 * 10;
    ask_both(&tiers, None, seed, &format!("{layout:?}, no index")).await;
    if layout == Layout::Memtables {
        return;
    }
    let asked = |metric| one(metric, 3, VectorSearch::default());
    for metric in [Metric::L2, Metric::Cosine] {
        index(&tiers, metric).await;
        if layout != Layout::Emptied {
            assert!(uses_index(&tiers, &asked(None)).await && uses_index(&tiers, &asked(Some(metric))).await);
            assert!(!uses_index(&tiers, &asked(Some(Metric::Dot))).await, "of another metric");
            let bypassed = VectorSearch { bypass_index: true, ..VectorSearch::default() };
            assert!(!uses_index(&tiers, &one(None, 3, bypassed)).await);
            assert!(!uses_index(&tiers, &one(None, NO_LIMIT, VectorSearch::default())).await, "all rows");
        }
        ask_both(&tiers, Some(metric), seed + 2, &format!("{layout:?}, index of {metric:?}")).await;
    }
    tiers.append_to_base().await;
    ask_both(&tiers, Some(Metric::Cosine), seed + 4, &format!("{layout:?}, rows that are in no index")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_base_alone() {
    search_all(Layout::Base).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_memtables_alone() {
    search_all(Layout::Memtables).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_base_and_sstables() {
    search_all(Layout::BaseSsTables).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_base_sstables_and_memtable() {
    search_all(Layout::BaseSsTablesMemtable).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_base_with_deleted_rows_and_stable_row_ids() {
    search_all(Layout::DeletedStable).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_base_with_keys_twice() {
    search_all(Layout::KeysTwice).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_shards_with_memtables_that_freeze() {
    search_all(Layout::Shards).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_table_whose_rows_are_all_deleted() {
    search_all(Layout::Emptied).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fast_search_passes_over_rows_of_the_base_that_are_in_no_index_and_over_nothing_else() {
    let mut tiers = Tiers::build(Layout::BaseSsTablesMemtable, Key::Id, 3).await;
    let all = one(None, NO_LIMIT, VectorSearch::default());
    let how = VectorSearch { fast: true, minimum_nprobes: Some(8), ..VectorSearch::default() };
    let fast = one(None, NO_LIMIT, how);
    let ids = |rows: Vec<Found>| rows.into_iter().map(|(_, row, _)| row).collect::<BTreeSet<_>>();
    let snapshot = tiers.table.read(ReadLevel::Durable).await.unwrap();
    let (everything, fresh) = (ids(found(&snapshot, &all).await), ids(found(&snapshot, &fast).await));
    assert!(!fresh.is_empty() && fresh.len() < everything.len(), "without an index the base is passed over");

    index(&tiers, Metric::L2).await;
    let snapshot = tiers.table.read(ReadLevel::Durable).await.unwrap();
    assert_eq!(ids(found(&snapshot, &fast).await), everything, "all of the base is in the index");

    tiers.append_to_base().await;
    let snapshot = tiers.table.read(ReadLevel::Durable).await.unwrap();
    assert_eq!(ids(found(&snapshot, &fast).await), everything, "not what came after it");
    assert!(found(&snapshot, &all).await.len() > everything.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_of_any_size_are_taken_and_set_no_memory_aside() {
    let tiers = Tiers::build(Layout::BaseSsTablesMemtable, Key::Id, 5).await;
    index(&tiers, Metric::L2).await;
    let most = Some(u32::MAX);
    let how = VectorSearch {
        minimum_nprobes: most,
        maximum_nprobes: Some(0),
        ef: most,
        refine_factor: most,
        effort: Some(1.0),
        ..VectorSearch::default()
    };
    let snapshot = tiers.table.read(ReadLevel::Durable).await.unwrap();
    let exact =
        found(&snapshot, &one(None, 5, VectorSearch { bypass_index: true, ..VectorSearch::default() })).await;
    let request = one(None, 5, how.clone());
    assert!(uses_index(&tiers, &request).await);
    let far = |rows: Vec<Found>| rows.into_iter().map(|(_, _, distance)| distance).collect::<Vec<_>>();
    assert_eq!(far(found(&snapshot, &request).await), far(exact));
    for (limit, offset) in [(u64::MAX, u64::MAX), (u64::MAX, 0), (0, 0), (0, u64::MAX), (5, u64::MAX)] {
        let request = QueryRequest { offset, ..one(None, limit, how.clone()) };
        let rows = found(&snapshot, &request).await.len();
        assert_eq!(rows > 0, limit > 0 && offset == 0, "limit {limit}, offset {offset}: {rows} rows");
    }
}
