//! Queries for rows over every layout of tiers give what Lance's own scan of a plain table of the live rows
//! gives (P13): conditions, paths, computed columns, orders, limits.

use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_cast::pretty::pretty_format_batches;
use futures::TryStreamExt;
use headwater::{
    Columns, Error, OrderBy, QueryError, QueryRequest, ReadOptions, Reader, Sharding, Table, VectorQuery,
};
use lance::Dataset;
use lance::dataset::scanner::ColumnOrdering;
use lance_io::stream::RecordBatchStream;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::random_sql::layout::{Key, Layout, Tiers};
use crate::support::{Home, named, options};

const LAYOUTS: [Layout; 8] = [
    Layout::Base,
    Layout::Memtables,
    Layout::BaseSsTables,
    Layout::BaseSsTablesMemtable,
    Layout::DeletedStable,
    Layout::KeysTwice,
    Layout::Shards,
    Layout::Emptied,
];
const FILTERS: [&str; 9] = [
    "n > 3",
    "`Mixed Case` < 6 AND n IS NOT NULL",
    "meta.a = 2 OR meta.b = 'p'",
    "name = \"ab\"",
    "x = 0.0 OR x IS NULL",
    "id IN (1, 5, 8, 13, 21, 34)",
    "NOT (small = 1)",
    "flag",
    "100 / (id + 1) > 5",
];
const NAMES: [&str; 8] = ["id", "n", "small", "name", "Mixed Case", "meta", "meta.a", "v"];
const COMPUTED: [(&str, &str); 7] = [
    ("key", "id"),
    ("next", "n + 1"),
    ("up", "upper(name)"),
    ("a", "meta.a"),
    ("mixed", "`Mixed Case` * 2"),
    ("big", "n > 3 AND flag"),
    ("other", "coalesce(n, small, -1)"),
];
const ORDERS: [&str; 6] = ["n", "small", "name", "Mixed Case", "x", "flag"];

fn text(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let format = FormatOptions::new().with_null("null");
    let rows = batches.iter().flat_map(|batch| {
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &format).unwrap()).collect();
        let row = |row| columns.iter().map(|column| column.value(row).to_string()).collect();
        (0..batch.num_rows()).map(row).collect::<Vec<Vec<String>>>()
    });
    rows.collect()
}

fn random(chance: &mut SmallRng) -> QueryRequest {
    let count = chance.random_range(1..4);
    let columns = match chance.random_range(0..4) {
        0 => None,
        1 | 2 => {
            let names = NAMES.choose_multiple(chance, count).map(|name| (*name).to_owned());
            Some(Columns::Named(names.collect()))
        }
        _ => {
            let computed = COMPUTED.choose_multiple(chance, count);
            Some(Columns::Computed(
                computed.map(|(name, sql)| ((*name).to_owned(), (*sql).to_owned())).collect(),
            ))
        }
    };
    let mut order_by = Vec::new();
    if chance.random_bool(0.6) {
        let step = |column: &str, chance: &mut SmallRng| OrderBy {
            column: column.to_owned(),
            ascending: chance.random_bool(0.5),
            nulls_first: chance.random_bool(0.5),
        };
        let first = *ORDERS.choose(chance).unwrap();
        order_by.push(step(first, chance));
        // Key and n together tell every two rows apart.
        order_by.extend([step("id", chance), step("n", chance)]);
        order_by.dedup_by(|one, other| one.column == other.column);
        if first == "n" {
            order_by.truncate(2);
        }
    }
    QueryRequest {
        filter: chance.random_bool(0.7).then(|| (*FILTERS.choose(chance).unwrap()).to_owned()),
        columns,
        limit: chance.random_bool(0.5).then(|| chance.random_range(0..12)),
        offset: if chance.random_bool(0.3) { chance.random_range(0..6) } else { 0 },
        order_by,
        ..QueryRequest::default()
    }
}

/// The same of a plain table, but for limit and offset.
async fn of_plain(plain: &Dataset, request: &QueryRequest) -> (Vec<String>, Vec<Vec<String>>) {
    let mut scanner = plain.scan();
    match &request.columns {
        None => {}
        Some(Columns::Named(names)) => {
            scanner.project(names).unwrap();
        }
        Some(Columns::Computed(columns)) => {
            scanner.project_with_transform(columns).unwrap();
        }
    }
    if let Some(filter) = &request.filter {
        scanner.filter(filter).unwrap();
    }
    if !request.order_by.is_empty() {
        let order = request.order_by.iter().map(|by| ColumnOrdering {
            ascending: by.ascending,
            nulls_first: by.nulls_first,
            column_name: by.column.clone(),
        });
        // Without row ids Lance cannot plan some orders.
        scanner.order_by(Some(order.collect())).unwrap().with_row_id();
    }
    let rows = scanner.try_into_stream().await.unwrap();
    let mut names = lance_names(&rows.schema());
    names.retain(|name| name != "_rowid");
    let rows: Vec<RecordBatch> = rows.try_collect().await.unwrap();
    let rows: Vec<RecordBatch> = rows.into_iter().map(without_row_ids).collect();
    (names, text(&rows))
}

fn without_row_ids(mut rows: RecordBatch) -> RecordBatch {
    if let Ok(place) = rows.schema().index_of("_rowid") {
        rows.remove_column(place);
    }
    rows
}

fn lance_names(schema: &arrow_schema::Schema) -> Vec<String> {
    schema.fields().iter().map(|field| field.name().clone()).collect()
}

async fn rows_of(table: &Table, request: &QueryRequest) -> (Vec<String>, Vec<Vec<String>>) {
    let rows = table.query(request).await.unwrap();
    let names = lance_names(&rows.schema());
    let rows: Vec<RecordBatch> = rows.try_collect().await.unwrap();
    (names, text(&rows))
}

async fn check(table: &Table, plain: &Dataset, request: &QueryRequest) -> Result<(), String> {
    let ((names, ours), (plain_names, mut all)) =
        (rows_of(table, request).await, of_plain(plain, request).await);
    if names != plain_names {
        return Err(format!("columns {names:?}, not {plain_names:?}"));
    }
    let usize = |rows: u64| usize::try_from(rows).unwrap();
    let left = all.len().saturating_sub(usize(request.offset));
    let wanted = request.limit.map_or(left, |limit| left.min(usize(limit)));
    let same = if request.order_by.is_empty() {
        // Which rows a limit keeps is not said.
        let is_one = |row: &Vec<String>| match all.iter().position(|other| other == row) {
            Some(place) => {
                all.swap_remove(place);
                true
            }
            None => false,
        };
        ours.len() == wanted && ours.iter().all(is_one)
    } else {
        all.iter().skip(usize(request.offset)).take(wanted).eq(&ours)
    };
    if same { Ok(()) } else { Err(format!("ours: {ours:?}\nleft of plain: {all:?}")) }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_over_every_layout_equal_those_of_a_plain_table() {
    for layout in LAYOUTS {
        let tiers = Tiers::build(layout, Key::Id, 11).await;
        let plain = Dataset::open(&tiers.plain()).await.unwrap();
        let reader = Table::open(tiers.table.uri(), options()).await.unwrap();
        let mut chance = SmallRng::seed_from_u64(layout as u64);
        for number in 0..60 {
            let request = random(&mut chance);
            let table = if number % 3 == 0 { &reader } else { &tiers.table };
            if let Err(difference) = check(table, &plain, &request).await {
                let plan = table.explain_query(&request, true).await.unwrap();
                panic!("{layout:?}, query {number}: {request:?}\n{difference}\n{plan}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_answers_and_plans_tell_the_steps() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    table.put(named(0..20)).await.unwrap();
    table.flush().await.unwrap();
    table.put(named(15..30)).await.unwrap();
    let by = OrderBy { column: "id".to_owned(), ascending: false, nulls_first: false };
    let request = QueryRequest {
        filter: Some("id >= 10".to_owned()),
        columns: Some(Columns::Computed(vec![("twice".to_owned(), "id * 2".to_owned())])),
        order_by: vec![by],
        limit: Some(3),
        offset: 1,
        ..QueryRequest::default()
    };
    let reader = Reader::open(&home.uri(), options(), ReadOptions::default()).await.unwrap();
    let found: Vec<RecordBatch> = reader.query(&request).await.unwrap().try_collect().await.unwrap();
    let shown = pretty_format_batches(&found).unwrap().to_string();
    assert_eq!(shown, "+-------+\n| twice |\n+-------+\n| 56    |\n| 54    |\n| 52    |\n+-------+");
    let plan = table.explain_query(&request, false).await.unwrap();
    for step in [
        "ProjectionExec: expr=[id@0 * 2 as twice]",
        "skip=1, fetch=3",
        "TopK(fetch=4)",
        "memtable",
        "sstable",
    ] {
        assert!(plan.contains(step), "{step}: {plan}");
    }
    assert!(!plan.contains("output_rows"), "explaining reads nothing: {plan}");
    let analyzed = reader.analyze_query(&request).await.unwrap();
    assert!(analyzed.contains("output_rows=3"), "{analyzed}");
    assert_eq!(table.count(request.filter.as_deref()).await.unwrap(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_answered_is_refused_with_the_reason() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    table.put(named(0..3)).await.unwrap();
    let by = |column: &str| vec![OrderBy { column: column.to_owned(), ascending: true, nulls_first: false }];
    let named = |names: &[&str]| Some(Columns::Named(names.iter().map(|name| (*name).to_owned()).collect()));
    let sql = |text: &str| Some(Columns::Computed(vec![("c".to_owned(), text.to_owned())]));
    let default = QueryRequest::default;
    let row_ids = "does not support with_row_id";
    for (request, part) in [
        (QueryRequest { with_row_id: true, ..default() }, row_ids),
        (QueryRequest { filter: Some("_rowid IN (1, 2)".to_owned()), ..default() }, row_ids),
        (QueryRequest { filter: Some("`_rowoffset` = 1".to_owned()), ..default() }, row_ids),
        (QueryRequest { columns: named(&["id", "_rowoffset"]), ..default() }, row_ids),
        (QueryRequest { columns: sql("_rowid + 1"), ..default() }, row_ids),
        (QueryRequest { order_by: by("_rowaddr"), ..default() }, row_ids),
        (QueryRequest { full_text: Some("words".to_owned()), ..default() }, "full_text_query"),
        (
            QueryRequest { columns: named(&["nope"]), ..default() },
            "no column \"nope\": the table has id, name",
        ),
        (QueryRequest { columns: named(&["ID"]), ..default() }, "no column \"ID\""),
        (QueryRequest { columns: named(&["name.a"]), ..default() }, "columns: \"name.a\""),
        (QueryRequest { columns: named(&["id", "id"]), ..default() }, "columns: \"id\" is asked for twice"),
        (QueryRequest { columns: named(&["_distance"]), ..default() }, "no column \"_distance\""),
        (QueryRequest { columns: sql("nope + 1"), ..default() }, "no column \"nope\""),
        (QueryRequest { columns: sql("id, name"), ..default() }, "columns: \"id, name\""),
        (QueryRequest { columns: sql(""), ..default() }, "columns: \"\""),
        (QueryRequest { columns: sql("id +"), ..default() }, "columns: \"id +\""),
        (QueryRequest { columns: sql("count(*)"), ..default() }, "columns: \"count(*)\""),
        (QueryRequest { columns: sql("no_function(id)"), ..default() }, "columns: \"no_function(id)\""),
        (QueryRequest { columns: sql("(SELECT 1)"), ..default() }, "columns: \"(SELECT 1)\""),
        (QueryRequest { order_by: by("nope"), ..default() }, "no column \"nope\""),
        (QueryRequest { filter: Some("id ==".to_owned()), ..default() }, "filter \"id ==\""),
        (QueryRequest { nearest: Some(VectorQuery::default()), ..default() }, "vector: there is none"),
    ] {
        let said = match table.query(&request).await {
            Ok(_) => panic!("{request:?} was taken"),
            Err(error) => error.to_string(),
        };
        assert!(said.contains(part), "{request:?}: {said}");
        assert!(
            table.explain_query(&request, true).await.is_err()
                && table.analyze_query(&request).await.is_err()
        );
    }
    let asked = QueryRequest { with_row_id: true, ..default() };
    let Err(Error::Read { source, .. }) = table.query(&asked).await else { panic!("it was taken") };
    assert!(matches!(&*source, QueryError::RowIds { asked } if asked == "with_row_id"), "{source}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_columns_at_all_are_so_many_rows() {
    let home = Home::new();
    let table = home.create(&Sharding::Unsharded).await;
    table.put(named(0..7)).await.unwrap();
    let request = QueryRequest { columns: Some(Columns::Named(Vec::new())), ..QueryRequest::default() };
    let found: Vec<RecordBatch> = table.query(&request).await.unwrap().try_collect().await.unwrap();
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 7);
}
