//! Every route, and what a good request of it looks like.

use serde_json::{Value, json};

use super::address::encoded;
use super::dice::Dice;
use super::sql;

/// What a field of a body holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Count,
    /// A count of eight bits.
    Small,
    Number,
    Flag,
    Text,
    Version,
    Branch,
    Condition,
    Columns,
    Order,
    Search,
    Vector,
    Metric,
    Names,
    Query,
    Updates,
    NewColumns,
    Alterations,
    Metadata,
    Column,
    Index,
    Sharding,
    Defaults,
}

/// A field of a body.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub name: &'static str,
    pub kind: Kind,
    pub needed: bool,
}

/// What a parameter holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param {
    Flag(&'static str),
    Number(&'static str),
    Choice(&'static str, &'static str),
    Condition(&'static str),
    Text(&'static str),
}

/// What a body is.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    Nothing,
    Json(&'static [Field]),
    /// An Arrow IPC stream.
    Rows,
}

/// A route.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub route: &'static str,
    pub body: Body,
    /// What is always behind the `?`.
    pub query: &'static str,
    pub params: &'static [Param],
}

const fn field(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, needed: false }
}

const fn needed(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, needed: true }
}

const QUERY: &[Field] = &[
    field("k", Kind::Count),
    field("offset", Kind::Count),
    field("version", Kind::Version),
    field("branch", Kind::Branch),
    field("filter", Kind::Condition),
    field("prefilter", Kind::Flag),
    field("columns", Kind::Columns),
    field("order_by", Kind::Order),
    field("with_row_id", Kind::Flag),
    field("fast_search", Kind::Flag),
    field("use_lsm", Kind::Flag),
    field("use_rte", Kind::Flag),
    field("full_text_query", Kind::Search),
    field("vector", Kind::Vector),
    field("vector_column", Kind::Column),
    field("distance_type", Kind::Metric),
    field("lower_bound", Kind::Number),
    field("upper_bound", Kind::Number),
    field("ef", Kind::Count),
    field("refine_factor", Kind::Count),
    field("bypass_vector_index", Kind::Flag),
    field("approx_mode", Kind::Text),
    field("nprobes", Kind::Count),
    field("minimum_nprobes", Kind::Count),
    field("maximum_nprobes", Kind::Count),
    field("search_effort", Kind::Number),
];
const COUNT: &[Field] = &[
    field("version", Kind::Version),
    field("branch", Kind::Branch),
    field("predicate", Kind::Condition),
    field("use_lsm", Kind::Flag),
    field("use_rte", Kind::Flag),
];
const EXPLAIN: &[Field] = &[field("verbose", Kind::Flag), field("query", Kind::Query)];
const AT_VERSION: &[Field] = &[field("version", Kind::Version), field("branch", Kind::Branch)];
const UPDATE: &[Field] =
    &[needed("updates", Kind::Updates), field("predicate", Kind::Condition), field("branch", Kind::Branch)];
const DELETE: &[Field] = &[needed("predicate", Kind::Condition), field("branch", Kind::Branch)];
const ADD: &[Field] = &[needed("new_columns", Kind::NewColumns), field("branch", Kind::Branch)];
const ALTER: &[Field] = &[needed("alterations", Kind::Alterations), field("branch", Kind::Branch)];
const DROP: &[Field] = &[needed("columns", Kind::Names), field("branch", Kind::Branch)];
const METADATA: &[Field] = &[needed("updates", Kind::Metadata), field("branch", Kind::Branch)];
const INDEX: &[Field] = &[
    needed("column", Kind::Column),
    needed("index_type", Kind::Index),
    field("name", Kind::Text),
    field("replace", Kind::Flag),
    field("metric_type", Kind::Metric),
    field("num_partitions", Kind::Count),
    field("num_sub_vectors", Kind::Count),
    field("num_bits", Kind::Small),
    field("sample_rate", Kind::Count),
    field("max_iterations", Kind::Count),
    field("m", Kind::Count),
    field("ef_construction", Kind::Count),
];
const SPEC: &[Field] = &[
    needed("sharding", Kind::Sharding),
    field("maintained_indexes", Kind::Names),
    field("writer_config_defaults", Kind::Defaults),
];
const STATS: &[Field] =
    &[field("include_sstable_rows", Kind::Flag), field("include_generation_rows", Kind::Flag)];

const BRANCH: &[Param] = &[Param::Text("branch")];
const PAGE: &[Param] = &[Param::Number("limit"), Param::Text("page_token")];
const CREATE: &[Param] = &[Param::Choice("mode", "exist_ok")];
const INSERT: &[Param] = &[Param::Choice("mode", "append"), Param::Text("branch"), Param::Text("upload_id")];
const MERGE: &[Param] = &[
    Param::Text("on"),
    Param::Text("branch"),
    Param::Flag("when_matched_update_all"),
    Param::Condition("when_matched_update_all_filt"),
    Param::Flag("when_not_matched_insert_all"),
    Param::Flag("when_not_matched_by_source_delete"),
    Param::Condition("when_not_matched_by_source_delete_filt"),
    Param::Flag("use_index"),
    Param::Flag("use_lsm"),
    Param::Flag("use_rte"),
];
const UPSERT: &str = "on=id&when_matched_update_all=true&when_not_matched_insert_all=true";

const fn shape(route: &'static str, body: Body) -> Shape {
    Shape { route, body, query: "", params: &[] }
}

const fn with(route: &'static str, body: Body, query: &'static str, params: &'static [Param]) -> Shape {
    Shape { route, body, query, params }
}

/// All routes of the protocol.
pub const SHAPES: [Shape; 36] = [
    with("/v1/table", Body::Nothing, "limit=10", PAGE),
    with("/v1/namespace/{namespace}/table/list", Body::Nothing, "", PAGE),
    with("/v1/table/{id}/create", Body::Rows, "mode=exist_ok", CREATE),
    shape("/v1/table/{id}/describe", Body::Json(AT_VERSION)),
    shape("/v1/table/{id}/drop", Body::Nothing),
    with("/v1/table/{id}/insert", Body::Rows, "mode=append", INSERT),
    with("/v1/table/{id}/merge_insert", Body::Rows, UPSERT, MERGE),
    shape("/v1/table/{id}/update", Body::Json(UPDATE)),
    shape("/v1/table/{id}/delete", Body::Json(DELETE)),
    shape("/v1/table/{id}/query", Body::Json(QUERY)),
    shape("/v1/table/{id}/count_rows", Body::Json(COUNT)),
    shape("/v1/table/{id}/explain_plan", Body::Json(EXPLAIN)),
    shape("/v1/table/{id}/analyze_plan", Body::Json(QUERY)),
    shape("/v1/table/{id}/stats", Body::Json(AT_VERSION)),
    with("/v1/table/{id}/version/list", Body::Nothing, "", BRANCH),
    shape("/v1/table/{id}/add_columns", Body::Json(ADD)),
    shape("/v1/table/{id}/alter_columns", Body::Json(ALTER)),
    shape("/v1/table/{id}/drop_columns", Body::Json(DROP)),
    shape("/v1/table/{id}/update_field_metadata", Body::Json(METADATA)),
    shape("/v1/table/{id}/create_index", Body::Json(INDEX)),
    shape("/v1/table/{id}/index/list", Body::Json(AT_VERSION)),
    shape("/v1/table/{id}/index/{index}/stats", Body::Json(AT_VERSION)),
    with("/v1/table/{id}/index/{index}/drop", Body::Nothing, "", BRANCH),
    shape("/v1/table/{id}/flush", Body::Nothing),
    shape("/v1/table/{id}/enable_rte", Body::Json(SPEC)),
    shape("/v1/table/{id}/disable_rte", Body::Nothing),
    shape("/v1/table/{id}/get_rte_spec", Body::Nothing),
    shape("/v1/table/{id}/flush_rte", Body::Nothing),
    shape("/v1/table/{id}/compact_rte", Body::Nothing),
    shape("/v1/table/{id}/get_rte_stats", Body::Json(STATS)),
    shape("/v1/table/{id}/set_lsm_write_spec", Body::Json(SPEC)),
    shape("/v1/table/{id}/unset_lsm_write_spec", Body::Nothing),
    shape("/v1/table/{id}/get_lsm_write_spec", Body::Nothing),
    shape("/v1/table/{id}/flush_lsm", Body::Nothing),
    shape("/v1/table/{id}/compact_lsm", Body::Nothing),
    shape("/v1/table/{id}/get_lsm_stats", Body::Json(STATS)),
];

/// The routes as the server's own source lists them.
pub fn routes_of_the_server() -> Vec<&'static str> {
    let lines = include_str!("../../../src/router.rs").lines().map(str::trim);
    let quoted = lines.filter_map(|line| line.strip_prefix("(\"")?.split_once('"'));
    quoted.map(|(route, _)| route).filter(|route| route.starts_with("/v1/")).collect()
}

impl Shape {
    pub fn method(&self) -> &'static str {
        if self.route.contains("{id}") { "POST" } else { "GET" }
    }

    pub fn path(&self, table: &str, index: &str) -> String {
        self.route.replace("{id}", table).replace("{index}", index).replace("{namespace}", "%24")
    }

    /// Whether a table is another one afterwards, should it succeed.
    pub fn changes(&self) -> bool {
        let reads = ["list", "describe", "query", "count_rows", "plan", "stats", "spec", "/table"];
        let sets = self.route.ends_with("set_lsm_write_spec");
        sets || !reads.iter().any(|read| self.route.ends_with(read))
    }
}

impl Param {
    pub fn name(self) -> &'static str {
        match self {
            Self::Flag(name)
            | Self::Number(name)
            | Self::Choice(name, _)
            | Self::Condition(name)
            | Self::Text(name) => name,
        }
    }

    /// A value it can have, as it stands in a query string.
    pub fn good(self, dice: &mut Dice) -> String {
        match self {
            Self::Flag(_) => dice.pick(&["true", "false"]).to_owned(),
            Self::Number(_) => dice.below(20).to_string(),
            Self::Choice(_, value) => value.to_owned(),
            Self::Condition(_) => encoded("target.id > 3"),
            Self::Text("on") => "id".to_owned(),
            Self::Text("branch") => "main".to_owned(),
            Self::Text(_) => "a".to_owned(),
        }
    }
}

/// A good body: what is needed, and now and then something else.
pub fn body(dice: &mut Dice, fields: &[Field]) -> Vec<(String, Value)> {
    let mut body = Vec::new();
    for field in fields {
        if field.needed || dice.one_in(5) {
            body.push((field.name.to_owned(), good(dice, field.kind)));
        }
    }
    body
}

/// A value a field can have.
pub fn good(dice: &mut Dice, kind: Kind) -> Value {
    match kind {
        Kind::Count => json!(1 + dice.below(20)),
        Kind::Small => json!(8),
        Kind::Number => json!(dice.pick(&[0.0, 0.5, 1.0])),
        Kind::Flag => json!(dice.one_in(2)),
        Kind::Text => json!(dice.pick(&["fast", "id_idx", "other"])),
        Kind::Version => Value::Null,
        Kind::Branch => dice.pick(&[Value::Null, json!("main")]),
        Kind::Condition => json!(sql::good(dice)),
        Kind::Columns => dice.pick(&[json!(["id", "name"]), json!({ "twice": "id * 2" })]),
        Kind::Order => json!([{ "column_name": "id", "ascending": dice.one_in(2), "nulls_first": false }]),
        Kind::Search => json!({ "query": "a1", "columns": ["name"] }),
        Kind::Vector => {
            dice.pick(&[json!([1.0, 0.0, 0.0, 0.0]), json!([]), json!([[1, 0, 0, 0], [2, 0, 0, 0]])])
        }
        Kind::Metric => json!(dice.pick(&["l2", "cosine", "dot"])),
        Kind::Names => json!(["n"]),
        Kind::Query => json!({ "k": 3, "filter": "id > 1" }),
        Kind::Updates => json!([["name", "upper(name)"]]),
        Kind::NewColumns => json!([{ "name": "more", "expression": "id + 1" }]),
        Kind::Alterations => json!([{ "path": "n", "rename": "m" }]),
        Kind::Metadata => json!([{ "path": "n", "metadata": { "a": "b", "c": null }, "replace": false }]),
        Kind::Column => json!(dice.pick(&["id", "name", "v"])),
        Kind::Index => json!(dice.pick(&["BTREE", "BITMAP", "FTS", "IVF_FLAT", "IVF_PQ", "IVF_HNSW_SQ"])),
        Kind::Sharding => dice.pick(&[json!({ "mode": "unsharded" }), bucket(4)]),
        Kind::Defaults => json!({ "max_memtable_rows": "5000" }),
    }
}

fn bucket(buckets: u64) -> Value {
    json!({ "mode": "bucket", "column": "id", "num_buckets": buckets })
}

/// Values a field cannot have, whatever the table is: they are of another type.
pub fn wrong(kind: Kind) -> Vec<Value> {
    match kind {
        Kind::Count => vec![json!("many"), json!(-1), json!(1.5), json!(true), json!([]), json!({})],
        Kind::Small => vec![json!("many"), json!(-1), json!(256), json!([])],
        Kind::Version => vec![json!("newest"), json!(-1), json!(0.5), json!([1])],
        Kind::Number => vec![json!("x"), json!(true), json!([]), json!({})],
        Kind::Flag => vec![json!(1), json!("true"), json!([]), json!({})],
        Kind::Text | Kind::Branch | Kind::Condition | Kind::Metric | Kind::Column | Kind::Index => {
            vec![json!(1), json!(true), json!(["x"]), json!({ "x": 1 })]
        }
        Kind::Columns => vec![json!(3), json!("id"), json!([3]), json!({ "a": 3 })],
        Kind::Order => vec![
            json!("id"),
            json!([3]),
            json!([{ "ascending": true }]),
            json!([{ "column_name": 3 }]),
            json!([{ "column_name": "id", "ascending": "x" }]),
        ],
        Kind::Search => vec![json!(3), json!("x"), json!({ "query": 3 }), json!({ "query": { "match": 3 } })],
        Kind::Vector => vec![json!(3), json!("x"), json!({}), json!(["a"]), json!([[1], "x"]), json!([null])],
        Kind::Names => vec![json!(3), json!("x"), json!([3])],
        Kind::Query => vec![json!(3), json!("x"), json!({ "k": "x" })],
        Kind::Updates => vec![json!(3), json!("x"), json!(["x"]), json!([["name"]]), json!([["name", 3]])],
        Kind::NewColumns => {
            vec![json!(3), json!([3]), json!([{ "name": "x" }]), json!([{ "name": 3, "expression": "1" }])]
        }
        Kind::Alterations => vec![
            json!(3),
            json!([3]),
            json!([{}]),
            json!([{ "path": 3 }]),
            json!([{ "path": "n", "nullable": "x" }]),
            json!([{ "path": "n", "data_type": 3 }]),
        ],
        Kind::Metadata => vec![
            json!(3),
            json!([{}]),
            json!([{ "path": "n", "metadata": 3 }]),
            json!([{ "path": "n", "metadata": { "a": 3 } }]),
        ],
        Kind::Sharding => vec![
            json!(3),
            json!("unsharded"),
            json!({}),
            json!({ "mode": "x" }),
            json!({ "mode": "bucket", "column": "id" }),
            json!({ "mode": "bucket", "column": 3, "num_buckets": 4 }),
            json!({ "mode": "bucket", "column": "id", "num_buckets": "x" }),
            json!({ "mode": "identity" }),
        ],
        Kind::Defaults => vec![json!(3), json!([]), json!({ "a": 3 })],
    }
}

/// Kinds of indexes, metrics, modes, and what is none of them.
const ODD_WORDS: [&str; 17] = [
    "IVF_RQ",
    "IVF_SQ",
    "IVF_HNSW_PQ",
    "IVF_HNSW_FLAT",
    "LABEL_LIST",
    "NGRAM",
    "ZONEMAP",
    "BLOOM_FILTER",
    "RTREE",
    "FM",
    "ivf_",
    "IVF_NOPE",
    "hamming",
    "l1",
    "accurate",
    "n",
    "meta",
];

/// A value of the right type that may be anything else.
pub fn odd(dice: &mut Dice, kind: Kind) -> Value {
    match kind {
        Kind::Count | Kind::Version | Kind::Number => dice.extreme(),
        Kind::Small => json!(dice.byte()),
        Kind::Flag => json!(dice.one_in(2)),
        Kind::Text | Kind::Branch | Kind::Column | Kind::Metric | Kind::Index => match dice.one_in(2) {
            true => json!(dice.odd_text()),
            false => json!(dice.pick(&ODD_WORDS)),
        },
        Kind::Condition => json!(sql::condition(dice)),
        Kind::Columns if dice.one_in(2) => json!([dice.odd_text(), "id"]),
        Kind::Columns => json!({ dice.odd_text(): sql::value(dice), "b": sql::value(dice) }),
        Kind::Order => {
            let column = dice.odd_text();
            json!([{ "column_name": dice.pick(&["v", "meta", "nope", &column]) }, { "column_name": "id" }])
        }
        Kind::Search => odd_search(dice),
        Kind::Vector => odd_vector(dice),
        Kind::Names => json!(vec![dice.odd_text(); dice.below(3)]),
        Kind::Query => json!({ "k": dice.extreme(), "filter": sql::condition(dice) }),
        Kind::Updates => {
            let column = dice.odd_text();
            let column = dice.pick(&["name", "name", "n", "v", "id", "meta", "meta.a", &column]);
            json!([[column, sql::value(dice)], ["n", sql::value(dice)]])
        }
        Kind::NewColumns => {
            let odd = json!({ "name": dice.odd_text(), "expression": sql::value(dice) });
            json!([odd, { "name": "m", "expression": "1" }])
        }
        Kind::Alterations => odd_alterations(dice),
        Kind::Metadata => odd_metadata(dice),
        Kind::Sharding => match dice.below(4) {
            0 => json!({ "mode": "bucket", "column": dice.odd_text(), "num_buckets": 4 }),
            1 => bucket(dice.pick(&[0, 1, 1_024, 1_025, u64::from(u32::MAX)])),
            2 => json!({ "mode": "identity", "column": dice.pick(&["id", "name", "v", "meta", "nope", ""]) }),
            _ => json!({ "mode": "manual" }),
        },
        Kind::Defaults => {
            let names = [
                "max_memtable_rows",
                "max_memtable_size",
                "max_memtable_batches",
                "max_wal_flush_interval_ms",
                "max_wal_persist_retries",
                "headwater.freeze.max_rows",
                "headwater.wal",
                "headwater.nope",
                "",
            ];
            let value = match dice.extreme() {
                number if dice.one_in(2) => number.to_string(),
                _ => dice.odd_text(),
            };
            json!({ dice.pick(&names): value })
        }
    }
}

fn odd_vector(dice: &mut Dice) -> Value {
    match dice.below(8) {
        0 => json!([1.0]),
        1 => json!(vec![0.5; dice.pick(&[3, 5, 1_000, 20_000])]),
        2 => json!([[]]),
        3 => json!([[1, 0, 0, 0], [1]]),
        4 => json!([1e39, 0.0, 0.0, 0.0]),
        5 => json!(vec![dice.extreme(); 4]),
        6 => json!(vec![json!([0, 0, 0, 0]); dice.pick(&[2, 300])]),
        _ => json!([[1, 0, 0, 0], []]),
    }
}

fn odd_search(dice: &mut Dice) -> Value {
    let text = dice.odd_text();
    let column = dice.pick(&["name", "id", "v", "nope", &text]).to_owned();
    let matched = json!({ "match": { "column": column, "terms": dice.odd_text(), "boost": dice.extreme(),
        "fuzziness": dice.extreme(), "max_expansions": dice.extreme(), "operator": "Or",
        "prefix_length": 1 } });
    match dice.below(6) {
        0 => json!({ "query": text, "columns": [column] }),
        1 => json!({ "query": matched }),
        2 => json!({ "query": { "phrase": { "column": column, "terms": "a b", "slop": dice.extreme() } } }),
        3 => json!({ "query": { "boolean": { "should": [matched], "must": [], "must_not": [] } } }),
        4 => {
            let both = json!({ "positive": matched, "negative": matched, "negative_boost": 0.5 });
            json!({ "query": { "boost": both } })
        }
        _ => {
            let depth = dice.pick(&[3, 30, 60]);
            let nested =
                |inner: Value, _| json!({ "boolean": { "should": [inner], "must": [], "must_not": [] } });
            json!({ "query": (0..depth).fold(matched, nested) })
        }
    }
}

fn odd_alterations(dice: &mut Dice) -> Value {
    let text = dice.odd_text();
    let path = dice.pick(&["n", "name", "v", "meta.a", "id", "nope", &text]).to_owned();
    let types = [
        json!({ "type": "int32" }),
        json!({ "type": "string" }),
        json!({ "type": "nope" }),
        json!({ "type": "fixed_size_list", "length": 0,
            "fields": [{ "name": "item", "type": { "type": "float" }, "nullable": true }] }),
        json!({ "type": "fixed_size_list", "length": u64::MAX }),
        json!({ "type": "struct", "fields": [] }),
        json!({ "type": "decimal128(500, -500)" }),
        json!({}),
    ];
    match dice.below(5) {
        0 => json!([{ "path": path, "data_type": dice.pick(&types) }]),
        1 => json!([{ "path": path, "nullable": dice.one_in(2) }]),
        2 => json!([{ "path": path }]),
        3 => json!([{ "path": path, "rename": dice.odd_text() }]),
        _ => json!([{ "path": "n", "rename": "name" }, { "path": "name", "rename": "n" }]),
    }
}

fn odd_metadata(dice: &mut Dice) -> Value {
    const KEY: &str = "lance-schema:unenforced-primary-key:position";
    let text = dice.odd_text();
    let path = dice.pick(&["n", "name", "v", "meta", "meta.a", "id", "nope", &text]).to_owned();
    let value = dice.pick(&["1", "2", "0", "-1", "x", "", "99999999999"]).to_owned();
    match dice.below(4) {
        0 => json!([{ "path": path, "metadata": { KEY: value } }]),
        1 => {
            let name = json!({ "path": "name", "metadata": { KEY: value } });
            json!([{ "path": path, "metadata": { KEY: "1" } }, name])
        }
        2 => json!([{ "path": path, "metadata": { KEY: null }, "replace": true }]),
        _ => {
            let entries = json!({ dice.odd_text(): dice.odd_text() });
            json!([{ "path": path, "metadata": entries, "replace": dice.one_in(2) }])
        }
    }
}
