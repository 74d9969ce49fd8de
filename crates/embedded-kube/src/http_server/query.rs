//! Query parameters into [`Options`], with the real server's leniency: unknown ones are ignored, a boolean is true
//! unless it says otherwise, a number must be one.

use percent_encoding::percent_decode_str;

use crate::{
    failure::{Answer, Failure, quoted},
    request::Options,
};

/// All pairs of a query, decoded, in order.
#[derive(Debug, Clone, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Splits and decodes.
    pub fn of(query: Option<&str>) -> Self {
        let decode =
            |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        Self(
            pairs
                .map(|pair| {
                    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                    (decode(key), decode(value))
                })
                .collect(),
        )
    }

    /// First value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// First value of a key; empty if there is none.
    pub fn text(&self, key: &str) -> String {
        self.get(key).unwrap_or_default().to_owned()
    }

    /// Every value of a key.
    pub fn all(&self, key: &str) -> Vec<String> {
        self.0.iter().filter(|(name, _)| name == key).map(|(_, value)| value.clone()).collect()
    }

    /// A boolean; any text but `0` and `false` means yes.
    pub fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    fn number(&self, key: &str) -> Answer<Option<i64>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.parse().map(Some).map_err(|why: std::num::ParseIntError| {
            use std::num::IntErrorKind::{NegOverflow, PosOverflow};
            let what = match why.kind() {
                PosOverflow | NegOverflow => "value out of range",
                _ => "invalid syntax",
            };
            Failure::bad_request(format!("strconv.ParseInt: parsing {}: {what}", quoted(value)))
        })
    }

    /// Everything a verb may want to know.
    pub fn options(&self) -> Answer<Options> {
        let positive = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
        Ok(Options {
            label_selector: self.text("labelSelector"),
            field_selector: self.text("fieldSelector"),
            resource_version: self.text("resourceVersion"),
            resource_version_match: self.text("resourceVersionMatch"),
            limit: positive(self.number("limit")?),
            continue_token: self.text("continue"),
            timeout_seconds: positive(self.number("timeoutSeconds")?),
            bookmarks: self.flag("allowWatchBookmarks").unwrap_or_default(),
            send_initial_events: self.flag("sendInitialEvents"),
            dry_run: self.all("dryRun"),
            field_manager: self.text("fieldManager"),
            field_validation: self.text("fieldValidation"),
            force: self.flag("force"),
            propagation_policy: self.text("propagationPolicy"),
            grace_period_seconds: self.number("gracePeriodSeconds")?,
            orphan_dependents: self.flag("orphanDependents"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        let query = Query::of(Some(
            "labelSelector=a%3Db%2Cc+in+(d)&limit=5&dryRun=All&dryRun=x&allowWatchBookmarks=1&force=FALSE",
        ));
        let options = query.options().unwrap();
        assert_eq!(options.label_selector, "a=b,c in (d)");
        assert_eq!(options.limit, Some(5));
        assert_eq!(options.dry_run, ["All", "x"]);
        assert!(options.bookmarks);
        assert_eq!(options.force, Some(false));
        assert_eq!(options.send_initial_events, None);
    }

    #[test]
    fn a_limit_that_is_no_number_is_refused_in_go_words() {
        let failure = Query::of(Some("limit=ten")).options().unwrap_err();
        assert_eq!(
            (failure.code(), failure.message()),
            (400, "strconv.ParseInt: parsing \"ten\": invalid syntax")
        );
        let failure = Query::of(Some("timeoutSeconds=99999999999999999999")).options().unwrap_err();
        assert!(failure.message().ends_with("value out of range"));
    }
}
