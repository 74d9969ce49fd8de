//! Pagination by `maxResults` and `nextToken`; tokens stay valid when items change between two pages.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::error::{ApiError, ApiResult};
use crate::query_string::{query_pairs, query_value};

/// The query string of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueryString<'a>(pub(crate) &'a str);

impl QueryString<'_> {
    pub(crate) fn get(self, key: &str) -> Option<String> {
        query_value(self.0, key)
    }

    pub(crate) fn get_all(self, key: &str) -> Vec<String> {
        query_pairs(self.0).filter(|(k, _)| k == key).map(|(_, value)| value).collect()
    }
}

/// One page of `items`, ordered by key, as `{field: […], "nextToken": …}`.
pub(crate) fn paginate<'a>(
    field: &str,
    items: impl Iterator<Item = (&'a str, Value)>,
    query: QueryString<'_>,
) -> ApiResult<Value> {
    let size = max_results(query)?;
    let after = query
        .get("nextToken")
        .filter(|token| !token.is_empty())
        .map(|token| decode_token(&token))
        .transpose()?;
    let mut rest =
        items.skip_while(|(key, _)| after.as_deref().is_some_and(|after| *key <= after)).peekable();
    let mut found = Vec::new();
    let mut last = None;
    while found.len() < size
        && let Some((key, value)) = rest.next()
    {
        last = Some(key);
        found.push(value);
    }
    let next = last.filter(|_| rest.peek().is_some()).map(|key| URL_SAFE_NO_PAD.encode(key));
    Ok(json!({ field: found, "nextToken": next }))
}

fn max_results(query: QueryString<'_>) -> ApiResult<usize> {
    let Some(text) = query.get("maxResults") else { return Ok(100) };
    match text.parse() {
        Ok(size @ 1..=100) => Ok(size),
        _ => Err(ApiError::invalid_parameter(format!("maxResults must be between 1 and 100: {text}"))),
    }
}

fn decode_token(token: &str) -> ApiResult<String> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok();
    bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| ApiError::invalid_parameter("The nextToken is not valid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(query: &str) -> ApiResult<Value> {
        paginate("names", ["a", "b", "c", "d", "e"].into_iter().map(|n| (n, json!(n))), QueryString(query))
    }

    #[test]
    fn every_item_is_on_exactly_one_page() {
        let first = names("maxResults=2").unwrap();
        assert_eq!(first["names"], json!(["a", "b"]));
        let second =
            names(&format!("maxResults=2&nextToken={}", first["nextToken"].as_str().unwrap())).unwrap();
        assert_eq!(second["names"], json!(["c", "d"]));
        let third =
            names(&format!("maxResults=2&nextToken={}", second["nextToken"].as_str().unwrap())).unwrap();
        assert_eq!(third, json!({"names": ["e"], "nextToken": null}));
    }

    #[test]
    fn a_page_that_ends_the_list_has_no_token() {
        assert_eq!(names("maxResults=5").unwrap()["nextToken"], Value::Null);
    }

    #[test]
    fn sizes_and_tokens_that_make_no_sense_are_refused() {
        for query in ["maxResults=0", "maxResults=101", "maxResults=x", "nextToken=%21%21"] {
            assert_eq!(names(query).unwrap_err().code, "InvalidParameterException", "{query}");
        }
    }
}
