//! Reading a JSON body.
//!
//! Owns: [`read`]. Requests without a body, content type or length are as good as `{}`; fields nobody knows
//! are ignored, for clients are newer than servers; what has the wrong type is refused by name. Does not own:
//! the bodies themselves.

use axum::body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::error::{ApiError, Code};

/// Bytes of a JSON body: many query vectors fit.
const MAX_BYTES: usize = 64 << 20;

/// The body as `T`.
///
/// # Errors
/// 400 naming the field that is wrong; 413 for a body that is too long.
pub async fn read<T: DeserializeOwned>(body: Body) -> Result<T, ApiError> {
    let bytes = match Limited::new(body, MAX_BYTES).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            let text = format!("request body: longer than {MAX_BYTES} bytes");
            return Err(ApiError::new(http::StatusCode::PAYLOAD_TOO_LARGE, Code::InvalidInput, text));
        }
        Err(_) => return Err(ApiError::invalid("request body: it could not be read to its end")),
    };
    let text: &[u8] = if bytes.iter().all(u8::is_ascii_whitespace) { b"{}" } else { &bytes };
    // A list would do for an object otherwise, its values taken for fields in their order.
    if text.trim_ascii_start().first() != Some(&b'{') {
        return Err(ApiError::invalid("request body: a JSON object is needed"));
    }
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let place = error.path().to_string();
        let reason = error.into_inner();
        match place.as_str() {
            "." => ApiError::invalid(format!("request body: {reason}")),
            place => ApiError::invalid(format!("request body, field {place}: {reason}")),
        }
    })?;
    json.end().map_err(|error| ApiError::invalid(format!("request body: {error}")))?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bodies::changes::Delete;
    use crate::bodies::query::Query;

    async fn refused<T: DeserializeOwned + std::fmt::Debug>(body: &'static str) -> String {
        let error = read::<T>(Body::from(body)).await.unwrap_err();
        assert_eq!(error.status, 400);
        error.text
    }

    #[tokio::test]
    async fn an_empty_body_is_an_empty_object_and_unknown_fields_are_ignored() {
        for body in ["", " \n", "{}", r#"{"new_in_2030": [1, {"a": null}]}"#] {
            assert_eq!(read::<Query>(Body::from(body)).await.unwrap().k, None, "{body:?}");
        }
    }

    #[tokio::test]
    async fn what_is_wrong_is_named() {
        assert!(refused::<Query>(r#"{"k": "ten"}"#).await.contains("field k:"));
        assert!(refused::<Query>(r#"{"k": -1}"#).await.contains("field k:"));
        assert!(
            refused::<Query>(r#"{"order_by": [{"column_name": 3}]}"#)
                .await
                .contains("order_by[0].column_name")
        );
        assert!(refused::<Query>(r#"{"vector": ["a"]}"#).await.contains("field vector"));
        assert!(refused::<Delete>("{}").await.contains("predicate"));
        assert!(refused::<Delete>(r#"{"predicate": "a"} x"#).await.contains("trailing"));
        for no_object in ["[1]", "[]", r#"["id > 0"]"#, "null", "3", "\u{feff}{}"] {
            assert!(refused::<Delete>(no_object).await.contains("a JSON object"), "{no_object}");
        }
    }
}
