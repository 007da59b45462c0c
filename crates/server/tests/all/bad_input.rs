//! What is wrong is refused with 4xx that names it, and changes nothing.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::fuzz::grammar::{Body, Field, Param, SHAPES, good, wrong};
use crate::support::{Server, pair, rows, upload, vectors};

/// A body with the fields it needs.
fn needed(fields: &[Field]) -> Value {
    let needed = fields.iter().filter(|field| field.needed);
    needed.map(|field| (field.name.to_owned(), good(&mut crate::fuzz::Dice::of(1), field.kind))).collect()
}

#[tokio::test]
async fn every_field_of_every_body_is_named_when_its_type_is_wrong_or_it_is_missing() {
    let server = Server::with_table(&[1]).await;
    let mut tried = 0;
    for shape in SHAPES {
        let Body::Json(fields) = shape.body else { continue };
        let path = shape.path("t", "id_idx");
        for field in fields {
            for value in wrong(field.kind) {
                let mut body = needed(fields);
                body[field.name] = value;
                let (code, text) = server.post(&path, body.clone()).await.refused(400);
                assert!(code == 13 && text.contains(field.name), "{path} {body}: {text}");
                tried += 1;
            }
            if field.needed {
                let mut body = needed(fields);
                body.as_object_mut().unwrap().remove(field.name);
                let (code, text) = server.post(&path, body).await.refused(400);
                assert!(code == 13 && text.contains(field.name), "{path}: {text}");
            }
        }
        for no_object in ["[]", "[1, 2]", "3", "null", "\"x\"", "{", "{}}", "\u{feff}{}", "{'k': 1}"] {
            let (_, text) = server.send(&path, &[], no_object).await.refused(400);
            assert!(text.contains("request body"), "{path} {no_object}: {text}");
        }
    }
    assert!(tried > 300, "{tried}");
    assert_eq!(server.table().await, [pair(1, "a")]);
    assert_eq!(server.post("/v1/table/t/describe/", json!({})).await.json()["version"], 1);
}

/// Lets a merge look at its condition for rows that were not sent.
const DELETES: &str = "when_not_matched_by_source_delete=true";

#[tokio::test]
async fn every_parameter_is_named_when_its_value_is_none() {
    let server = Server::with_table(&[1]).await;
    for shape in SHAPES {
        for param in shape.params {
            let values: &[&str] = match param {
                Param::Flag(_) => &["", "1", "yes", "tru", "%00", "%ff"],
                Param::Number(_) => &["", "x", "-1", "1.5", "99999999999999999999"],
                Param::Choice(..) => &["", "x", "append+"],
                Param::Condition(_) => &["nope+%3D+1", "id+%3E", "id+%3D+1+limit+2", "(((", "id"],
                Param::Text(_) => continue,
            };
            for value in values {
                // With another parameter the conditions are for; the last value of one counts.
                let query = format!("{DELETES}&{}&{}={value}", shape.query, param.name());
                let path = format!("{}?{query}", shape.path("t", "id_idx"));
                let reply = match shape.method() {
                    "GET" => server.get(&path).await,
                    _ => server.send(&path, &[], upload(&[rows(&[1], "b")])).await,
                };
                let (code, text) = reply.refused(400);
                assert_eq!(code, 13);
                assert!(
                    matches!(param, Param::Condition(_)) || text.contains(param.name()),
                    "{path}: {text}"
                );
            }
        }
    }
    assert_eq!(server.table().await, [pair(1, "a")]);
}

#[tokio::test]
async fn headers_that_are_wrong_are_named() {
    let server = Server::with_table(&[1]).await;
    for (name, values) in [
        ("x-lancedb-database", &["..", "a/b", "$x", "a b", ".x"][..]),
        ("x-lancedb-database-prefix", &["..", "a/../b", "$"]),
        ("x-request-timeout-ms", &["", "x", "-1", "1.5", "99999999999999999999"]),
        ("content-encoding", &["gzip", "br", "identity, gzip"]),
    ] {
        for value in values {
            for path in ["/v1/table/t/count_rows/", "/v1/table/t/insert/", "/v1/table/t/drop/"] {
                let mut headers = vec![(name, *value)];
                headers.retain(|(name, _)| *name != "x-lancedb-database");
                let reply = match name {
                    "x-lancedb-database" => server.of_database(value, path).await,
                    _ => server.send(path, &headers, "{}").await,
                };
                let (code, text) = reply.refused(400);
                let named = name.strip_prefix("x-lancedb-").unwrap_or(name).replace('-', " ");
                assert!(code == 13 && text.replace('-', " ").contains(&named), "{name}: {value}: {text}");
            }
        }
    }
    let (_, text) = server.get("/v1/table/t/query/").await.refused(405);
    assert!(text.contains("method GET"), "{text}");
    assert_eq!(server.table().await, [pair(1, "a")]);
}

/// Conditions that are wrong for a table of `id` and `name`, and what is said of them, in small letters.
const CONDITIONS: [(&str, &str); 24] = [
    (" ", ""),
    ("id >", "id >"),
    ("nope = 1", "nope"),
    ("id", "id"),
    ("1", ""),
    ("id = 'x'", "x"),
    ("id = 1 limit 2", "goes on"),
    ("id = 1; drop table t", "goes on"),
    ("true) or (true", "goes on"),
    ("id = (select 1)", "another query"),
    ("exists (select 1)", "another query"),
    ("id in (select id from t)", "another query"),
    ("count(id) > 1", "count"),
    ("row_number() over () = 1", "row_number"),
    ("id = $1", "$1"),
    ("nope(id) = 1", "nope"),
    ("cast(name as nope) = 1", "nope"),
    ("regexp_like(name, '(')", "regex"),
    ("id / 0 > 1", "divide"),
    ("cast(name as int) = 1", "a1"),
    ("id = 'x", "unterminated"),
    ("id = \u{0}", ""),
    ("name like 'a' and", ""),
    ("id in ()", ""),
];

#[tokio::test]
async fn conditions_that_are_wrong_are_refused_by_both_kinds_of_tables_and_change_nothing() {
    for server in
        [Server::with_table(&[1]).await, Server::with_tier(&[1], json!({ "mode": "unsharded" })).await]
    {
        let mut unnamed = Vec::new();
        for (condition, named) in CONDITIONS {
            for (route, body) in [
                ("query", json!({ "k": 1, "vector": [], "filter": condition })),
                ("count_rows", json!({ "predicate": condition })),
                ("delete", json!({ "predicate": condition })),
                ("update", json!({ "updates": [["name", "'x'"]], "predicate": condition })),
                ("explain_plan", json!({ "query": { "filter": condition } })),
            ] {
                // What fails on some row fails when it is run, not when it is planned.
                let reply = server.post(&format!("/v1/table/t/{route}/"), body).await;
                if route == "explain_plan" && reply.status == 200 {
                    continue;
                }
                let text = reply.text();
                if reply.status != 400 || !text.to_lowercase().contains(named) {
                    unnamed.push(format!("{route} {condition}: {} {text}", reply.status));
                }
            }
        }
        assert!(unnamed.is_empty(), "{unnamed:#?}");
        assert_eq!(server.table().await, [pair(1, "a")]);
    }
}

#[tokio::test]
async fn sql_that_nests_deeper_than_a_stack_is_refused_by_both_kinds_of_tables() {
    for server in
        [Server::with_table(&[1]).await, Server::with_tier(&[1], json!({ "mode": "unsharded" })).await]
    {
        for n in [1_000, 100_000] {
            for text in [
                vec!["id = 1"; n].join(" or "),
                format!("{} = 1", vec!["id"; n].join(" + ")),
                format!("{}id = 1{}", "(".repeat(n), ")".repeat(n)),
                format!("{} id = 1", "not ".repeat(n)),
                format!("id{} = 1", "::bigint".repeat(n)),
                format!("id{}", " is null".repeat(n)),
            ] {
                for (route, body) in [
                    ("query", json!({ "k": 1, "vector": [], "filter": text })),
                    ("query", json!({ "k": 1, "vector": [], "columns": { "x": text } })),
                    ("count_rows", json!({ "predicate": text })),
                    ("delete", json!({ "predicate": text })),
                    ("update", json!({ "updates": [["name", text]] })),
                ] {
                    let (_, said) = server.post(&format!("/v1/table/t/{route}/"), body).await.refused(400);
                    assert!(said.len() < 20_000, "{route}: {} bytes", said.len());
                }
            }
        }
        // What is long, but flat, is fine.
        let many = (0..5_000).map(|id| id.to_string()).collect::<Vec<_>>().join(", ");
        let counted = json!({ "predicate": format!("id in ({many})") });
        assert_eq!(server.post("/v1/table/t/count_rows/", counted).await.json(), 1);
        let several = json!({ "predicate": vec!["id = 1"; 100].join(" or ") });
        assert_eq!(server.post("/v1/table/t/count_rows/", several).await.json(), 1);
        assert_eq!(server.table().await, [pair(1, "a")]);
    }
}

#[tokio::test]
async fn numbers_no_index_or_search_can_have_are_named() {
    let server = Server::start().await;
    server.send("/v1/table/t/create/", &[], upload(&[vectors(0..20)])).await.ok();
    for field in
        ["num_partitions", "num_sub_vectors", "sample_rate", "max_iterations", "m", "ef_construction"]
    {
        for number in [0, u64::MAX] {
            let index = json!({ "column": "v", "index_type": "IVF_HNSW_PQ", field: number });
            let (_, text) = server.post("/v1/table/t/create_index/", index).await.refused(400);
            assert!(text.contains(field), "{text}");
        }
    }
    let text = json!({ "column": "name", "index_type": "FTS", "max_token_length": "x" });
    let (_, said) = server.post("/v1/table/t/create_index/", text).await.refused(400);
    assert!(said.contains("max_token_length"), "{said}");
    for (field, value) in [
        ("k", json!(0)),
        ("ef", json!(0)),
        ("refine_factor", json!(0)),
        ("minimum_nprobes", json!(0)),
        ("search_effort", json!(1.5)),
        ("distance_type", json!("l1")),
        ("approx_mode", json!("odd")),
        ("vector", json!([1.0])),
        ("vector", json!([[]])),
        ("vector", json!([1e39, 0])),
        ("vector", json!([[1, 0], [1]])),
        ("vector_column", json!("id")),
    ] {
        let mut query = json!({ "k": 1, "vector": [1.0, 0.0] });
        query[field] = value;
        let (_, text) = server.post("/v1/table/t/query/", query.clone()).await.refused(400);
        assert!(text.contains(field.split('_').next().unwrap()) || text.contains("dim"), "{query}: {text}");
    }
    let large = json!({ "k": i64::MAX, "vector": [1.0, 0.0], "ef": u64::MAX, "refine_factor": u32::MAX,
        "nprobes": u64::MAX });
    assert_eq!(server.post("/v1/table/t/query/", large).await.rows()[0].num_rows(), 20);
}

#[tokio::test]
async fn bodies_that_are_wrong_name_the_field() {
    let server = Server::with_table(&[1]).await;
    let cases: [(&str, Value, &str); 12] = [
        ("query", json!({ "k": "many" }), "field k"),
        ("query", json!({ "filter": "id >" }), "id >"),
        ("query", json!({ "filter": "nope = 1" }), "nope"),
        ("query", json!({ "columns": ["nope"] }), "nope"),
        ("query", json!({ "columns": 3 }), "field columns"),
        ("query", json!({ "full_text_query": 3 }), "field full_text_query"),
        ("query", json!({ "use_lsm": true }), "no write tier"),
        ("count_rows", json!({ "predicate": "x y z" }), ""),
        ("update", json!({ "updates": [["nope", "1"]] }), "nope"),
        ("update", json!({ "updates": [] }), "updates"),
        ("delete", json!({}), "predicate"),
        ("enable_rte", json!({ "sharding": { "mode": "sideways" } }), "sideways"),
    ];
    for (route, body, named) in cases {
        let (_, text) = server.post(&format!("/v1/table/t/{route}/"), body.clone()).await.refused(400);
        assert!(text.contains(named), "{route} {body}: {text}");
        assert!(!text.contains(server.dir.path().to_str().unwrap()), "{text}");
    }
    for route in ["query", "update", "delete", "count_rows", "create_index", "add_columns"] {
        server.send(&format!("/v1/table/t/{route}/"), &[], "{ no json").await.refused(400);
    }
    assert_eq!(server.table().await, [pair(1, "a")]);
}

#[tokio::test]
async fn uploads_that_are_cut_or_damaged_change_nothing() {
    let server = Server::with_table(&[1]).await;
    let whole = upload(&[rows(&[2, 3], "b"), rows(&[4], "b")]);
    for cut in (0..whole.len() - 1).step_by(7) {
        let reply = server.send("/v1/table/t/insert/", &[], &whole[..cut]).await;
        let (_, text) = reply.refused(400);
        assert!(text.contains("message"), "{text}");
    }
    for place in (0..whole.len()).step_by(3) {
        let mut damaged = whole.clone();
        damaged[place] ^= 0xff;
        let reply = server.send("/v1/table/t/insert/", &[], damaged).await;
        assert!(reply.status < 500, "byte {place}: {}", reply.text());
        if reply.status == 200 {
            // The damage was in values, or in padding.
            server.post("/v1/table/t/delete/", json!({ "predicate": "id != 1 or name != 'a1'" })).await.ok();
        }
    }
    let mut long = whole.clone();
    long.push(0);
    server.send("/v1/table/t/insert/", &[], long).await.refused(400);
    server.send("/v1/table/t/insert/", &[], "hello").await.refused(400);
    assert_eq!(server.table().await, [pair(1, "a")]);
}

#[tokio::test]
async fn a_claim_to_unpack_to_more_than_there_is_room_for_is_refused() {
    let server = Server::with_table(&[1]).await;
    let mut body = upload(&[rows(&(0..10_000).collect::<Vec<_>>(), "b")]);
    // The unpacked length of the buffer of ids.
    let claimed = 80_000_i64.to_le_bytes();
    let place = body.windows(8).position(|bytes| bytes == claimed).unwrap();
    body[place..place + 8].copy_from_slice(&(1_i64 << 50).to_le_bytes());
    let (_, text) = server.send("/v1/table/t/insert/", &[], body).await.refused(400);
    assert!(text.contains("unpacks"), "{text}");
}

#[tokio::test]
async fn rows_that_do_not_fit_name_the_column() {
    let server = Server::with_table(&[1]).await;
    let other = arrow_array::record_batch!(("id", Utf8, ["x"])).unwrap();
    let (_, text) = server.insert(other).await.refused(400);
    assert!(text.contains("id"), "{text}");
    assert_eq!(server.table().await, [pair(1, "a")]);
}

#[tokio::test]
async fn a_connection_that_breaks_in_an_upload_changes_nothing() {
    let server = Server::with_table(&[1]).await;
    let body = upload(&[rows(&[2], "b")]);
    let address = server.url.strip_prefix("http://").unwrap();
    let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = "POST /v1/table/t/insert/ HTTP/1.1\r\nhost: x\r\nx-lancedb-database: db\r\n\
        transfer-encoding: chunked\r\n\r\n";
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(format!("{:x}\r\n", body.len()).as_bytes()).await.unwrap();
    socket.write_all(&body).await.unwrap();
    // Without the chunk that says that it is all.
    socket.shutdown().await.unwrap();
    let mut answer = Vec::new();
    // Whether there is an answer to a connection that is half closed does not matter.
    let _ = socket.read_to_end(&mut answer).await;
    assert_eq!(server.table().await, [pair(1, "a")]);
}
