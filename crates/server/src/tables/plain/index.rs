//! Indexes of the base, through Lance: every kind it has.
//!
//! Owns: [`create`], [`list`], [`stats`], [`drop`]. Lance's own system indexes, the one that says a table has
//! a write tier among them, are nobody's here. Does not own: that changes happen once (`replays`).

use std::sync::Arc;

use arrow_schema::DataType;
use futures::FutureExt;
use lance::Dataset;
use lance::index::DatasetIndexExt;
use lance::index::vector::VectorIndexParams;
use lance_index::IndexType;
use lance_index::scalar::{BuiltinIndexType, InvertedIndexParams, ScalarIndexParams};
use lance_index::vector::bq::RQBuildParams;
use lance_index::vector::hnsw::builder::HnswBuildParams;
use lance_index::vector::ivf::IvfBuildParams;
use lance_index::vector::pq::PQBuildParams;
use lance_index::vector::sq::builder::SQBuildParams;
use serde_json::{Value, json};

use crate::bodies::changes::CreateIndex;
use crate::error::{ApiError, Code};
use crate::tables::replays::Change;

/// How the names of Lance's own indexes begin.
const SYSTEM: &str = "__lance_";
/// Kinds as clients call them, and as Lance does.
const KINDS: [(&str, &str, BuiltinIndexType); 9] = [
    ("BTREE", "BTree", BuiltinIndexType::BTree),
    ("BITMAP", "Bitmap", BuiltinIndexType::Bitmap),
    ("LABEL_LIST", "LabelList", BuiltinIndexType::LabelList),
    ("FTS", "Inverted", BuiltinIndexType::Inverted),
    ("NGRAM", "NGram", BuiltinIndexType::NGram),
    ("ZONEMAP", "ZoneMap", BuiltinIndexType::ZoneMap),
    ("BLOOM_FILTER", "BloomFilter", BuiltinIndexType::BloomFilter),
    ("RTREE", "RTree", BuiltinIndexType::RTree),
    ("FM", "Fm", BuiltinIndexType::Fm),
];

enum Params {
    Scalar(ScalarIndexParams),
    Text(Box<InvertedIndexParams>),
    Vector(Box<VectorIndexParams>),
}

/// Builds an index and commits it.
///
/// # Errors
/// 400 for a kind there is not, or parameters it cannot have.
pub fn create(body: CreateIndex) -> Result<Change, ApiError> {
    let name = body.name.clone().unwrap_or_else(|| format!("{}_idx", body.column));
    if name.starts_with(SYSTEM) {
        return Err(ApiError::invalid(format!("field name: names that begin with {SYSTEM} are Lance's own")));
    }
    check(&body)?;
    let replace = body.replace.unwrap_or(true);
    let scalar = scalar(&body)?;
    Ok(Box::new(move |mut dataset| {
        async move {
            let params = match scalar {
                Some(params) => params,
                None => Params::Vector(Box::new(vector(&dataset, &body)?)),
            };
            let (columns, name) = ([body.column.as_str()], Some(name));
            match &params {
                Params::Scalar(params) => {
                    dataset.create_index(&columns, IndexType::Scalar, name, params, replace).await?
                }
                Params::Text(params) => {
                    dataset
                        .create_index(&columns, IndexType::Inverted, name, params.as_ref(), replace)
                        .await?
                }
                Params::Vector(params) => {
                    dataset
                        .create_index(&columns, params.index_type(), name, params.as_ref(), replace)
                        .await?
                }
            };
            Ok((Arc::new(dataset), json!({})))
        }
        .boxed()
    }))
}

/// Checks numbers that Lance multiplies and makes room for as they come.
fn check(body: &CreateIndex) -> Result<(), ApiError> {
    let numbers = [
        ("num_partitions", body.num_partitions, 1 << 20),
        ("num_sub_vectors", body.num_sub_vectors, 1 << 16),
        ("num_bits", body.num_bits.map(usize::from), 16),
        ("sample_rate", body.sample_rate, 1 << 16),
        ("max_iterations", body.max_iterations, 10_000),
        ("m", body.m, 1 << 10),
        ("ef_construction", body.ef_construction, 1 << 16),
    ];
    let wrong = numbers.iter().find(|(_, number, most)| number.is_some_and(|n| n == 0 || n > *most));
    match wrong {
        Some((field, _, most)) => {
            Err(ApiError::invalid(format!("field {field}: it is a number from 1 to {most}")))
        }
        None => Ok(()),
    }
}

/// None for vector indexes.
fn scalar(body: &CreateIndex) -> Result<Option<Params>, ApiError> {
    let asked = body.index_type.to_ascii_uppercase();
    let kind = KINDS.iter().find(|(kind, lance, _)| asked == *kind || asked == lance.to_ascii_uppercase());
    let Some((kind, _, builtin)) = kind else {
        return match asked.starts_with("IVF_") {
            true => Ok(None),
            false => {
                Err(ApiError::invalid(format!("field index_type: there is no kind {:?}", body.index_type)))
            }
        };
    };
    if *kind != "FTS" {
        return Ok(Some(Params::Scalar(ScalarIndexParams::for_builtin(builtin.clone()))));
    }
    let params = serde_path_to_error::deserialize(Value::Object(body.rest.clone()));
    let params = params.map_err(|error| {
        let (field, reason) = (error.path().to_string(), error.into_inner());
        ApiError::invalid(format!("request body, field {field} of a text index: {reason}"))
    })?;
    Ok(Some(Params::Text(Box::new(params))))
}

fn vector(dataset: &Dataset, body: &CreateIndex) -> Result<VectorIndexParams, lance::Error> {
    let metric = body.metric_type.as_deref().unwrap_or("l2");
    let metric =
        metric.try_into().map_err(|_| wrong("metric_type", metric, "none of l2, cosine, dot, hamming"))?;
    let mut ivf = IvfBuildParams { num_partitions: body.num_partitions, ..IvfBuildParams::default() };
    ivf.sample_rate = body.sample_rate.unwrap_or(ivf.sample_rate);
    ivf.max_iters = body.max_iterations.unwrap_or(ivf.max_iters);
    let hnsw = || {
        let mut hnsw = HnswBuildParams::default();
        hnsw.m = body.m.unwrap_or(hnsw.m);
        hnsw.ef_construction = body.ef_construction.unwrap_or(hnsw.ef_construction);
        hnsw
    };
    let sq = || {
        let mut sq = SQBuildParams::default();
        sq.sample_rate = body.sample_rate.unwrap_or(sq.sample_rate);
        sq
    };
    Ok(match body.index_type.to_ascii_uppercase().as_str() {
        "IVF_FLAT" => VectorIndexParams::with_ivf_flat_params(metric, ivf),
        "IVF_PQ" => VectorIndexParams::with_ivf_pq_params(metric, ivf, pq(dataset, body)),
        "IVF_SQ" => VectorIndexParams::with_ivf_sq_params(metric, ivf, sq()),
        "IVF_RQ" => {
            VectorIndexParams::with_ivf_rq_params(metric, ivf, RQBuildParams::new(body.num_bits.unwrap_or(1)))
        }
        "IVF_HNSW_FLAT" => VectorIndexParams::ivf_hnsw(metric, ivf, hnsw()),
        "IVF_HNSW_SQ" => VectorIndexParams::with_ivf_hnsw_sq_params(metric, ivf, hnsw(), sq()),
        "IVF_HNSW_PQ" => VectorIndexParams::with_ivf_hnsw_pq_params(metric, ivf, hnsw(), pq(dataset, body)),
        other => return Err(wrong("index_type", other, "no kind of vector index")),
    })
}

fn pq(dataset: &Dataset, body: &CreateIndex) -> PQBuildParams {
    let mut pq = PQBuildParams::default();
    pq.num_sub_vectors = body.num_sub_vectors.unwrap_or_else(|| sub_vectors(dataset, &body.column));
    pq.num_bits = body.num_bits.map_or(pq.num_bits, usize::from);
    pq.max_iters = body.max_iterations.unwrap_or(pq.max_iters);
    pq.sample_rate = body.sample_rate.unwrap_or(pq.sample_rate);
    pq
}

/// Codes of 16 dimensions each where that goes up, else of 8, else one.
fn sub_vectors(dataset: &Dataset, column: &str) -> usize {
    let dimension = match dataset.schema().field(column).map(|field| field.data_type()) {
        Some(DataType::FixedSizeList(_, dimension)) => usize::try_from(dimension).unwrap_or_default(),
        _ => 0,
    };
    let fitting = [16, 8].into_iter().find(|size| dimension > 0 && dimension.is_multiple_of(*size));
    fitting.and_then(|size| dimension.checked_div(size)).unwrap_or(1)
}

fn wrong(field: &str, value: &str, why: &str) -> lance::Error {
    lance::Error::invalid_input(format!("field {field}: {value:?} is {why}"))
}

/// The indexes there are.
///
/// # Errors
/// What storage says.
pub async fn list(dataset: &Dataset) -> Result<Vec<Value>, lance::Error> {
    let rows = dataset.count_rows(None).await? as u64;
    let mut indexes = Vec::new();
    for index in dataset.describe_indices(None).await? {
        if index.name().starts_with(SYSTEM) {
            continue;
        }
        let mut columns = Vec::new();
        for field in index.field_ids() {
            columns.push(dataset.schema().field_path(i32::try_from(*field).unwrap_or(-1))?);
        }
        let (first, indexed) = (index.segments().first(), index.rows_indexed().min(rows));
        indexes.push(json!({
            "index_name": index.name(),
            "columns": columns,
            "index_type": kind(index.index_type()),
            "index_uuid": first.map(|segment| segment.uuid.to_string()),
            "created_at": first.and_then(|segment| segment.created_at).map(|at| at.to_rfc3339()),
            "num_indexed_rows": indexed,
            "num_unindexed_rows": rows.saturating_sub(indexed),
            "num_segments": index.segments().len(),
            "size_bytes": index.total_size_bytes(),
            "type_url": index.type_url(),
        }));
    }
    Ok(indexes)
}

fn kind(lance: &str) -> String {
    let known = KINDS.iter().find(|(_, name, _)| name.eq_ignore_ascii_case(lance));
    known.map_or_else(|| lance.to_owned(), |(kind, ..)| (*kind).to_owned())
}

/// What an index covers.
///
/// # Errors
/// 404 when there is no such index; otherwise what storage says.
pub async fn stats(dataset: &Dataset, name: &str) -> Result<Value, lance::Error> {
    let found: Value = serde_json::from_str(&dataset.index_statistics(name).await?)
        .map_err(|error| lance::Error::internal(error.to_string()))?;
    let parts = found.get("indices").and_then(Value::as_array);
    let distance =
        parts.into_iter().flatten().find_map(|part| part.get("metric_type").and_then(Value::as_str));
    let of = |field: &str| found.get(field).cloned().unwrap_or_default();
    Ok(json!({
        "num_indexed_rows": of("num_indexed_rows"),
        "num_unindexed_rows": of("num_unindexed_rows"),
        "index_type": of("index_type").as_str().map(kind),
        "distance_type": distance.map(str::to_ascii_lowercase),
        "num_indices": of("num_indices"),
    }))
}

/// Drops an index.
pub fn drop(name: String) -> Change {
    Box::new(move |mut dataset| {
        async move {
            dataset.drop_index(&name).await?;
            Ok((Arc::new(dataset), json!({})))
        }
        .boxed()
    })
}

/// 404 for an index there is not: with its status and code, a client knows that it is the index that is
/// missing.
pub fn none(table: &str, name: &str) -> ApiError {
    let text = format!("table {table:?} has no index {name:?}");
    ApiError::new(http::StatusCode::NOT_FOUND, Code::IndexNotFound, text)
}

/// Whether there is an index of this name that a client may know.
///
/// # Errors
/// What storage says.
pub async fn exists(dataset: &Dataset, name: &str) -> Result<bool, lance::Error> {
    Ok(!name.starts_with(SYSTEM) && !dataset.load_indices_by_name(name).await?.is_empty())
}
