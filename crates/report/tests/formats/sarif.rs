//! What the schema of SARIF 2.1.0 requires of the objects that are used.

use super::report;
use serde_json::{Map, Value};
use std::path::Path;

fn log() -> Value {
    serde_json::from_str(&report().to_sarif(Path::new("/nowhere"))).unwrap()
}

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap_or_else(|| panic!("an object: {value}"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("a list: {value}"))
}

/// The schema lets nothing stand in these objects that it does not name.
fn has_only(value: &Value, known: &[&str]) {
    for key in object(value).keys() {
        assert!(known.contains(&key.as_str()), "`{key}` in {value}");
    }
}

fn check_message(message: &Value) {
    has_only(message, &["text"]);
    assert!(message["text"].as_str().is_some_and(|text| !text.is_empty()), "{message}");
}

fn check_location(location: &Value) {
    has_only(location, &["id", "physicalLocation", "logicalLocations", "message"]);
    let physical = &location["physicalLocation"];
    has_only(physical, &["artifactLocation", "region"]);
    let uri = physical["artifactLocation"]["uri"].as_str().unwrap();
    assert!(!uri.is_empty() && !uri.contains([' ', '\\']), "{uri}");
    let region = &physical["region"];
    has_only(region, &["startLine", "snippet"]);
    assert!(region["startLine"].as_u64().unwrap() >= 1, "{region}");
    if let Some(message) = location.get("message") {
        check_message(message);
    }
}

#[test]
fn the_log_has_what_the_schema_requires() {
    let log = log();
    has_only(&log, &["$schema", "version", "runs"]);
    assert_eq!(log["version"], "2.1.0");
    let [run] = list(&log["runs"]) else { panic!("one run") };
    has_only(run, &["tool", "columnKind", "invocations", "results"]);
    let driver = &run["tool"]["driver"];
    has_only(driver, &["name", "version", "informationUri", "rules"]);
    assert_eq!(driver["name"], "sixwarp");
    let invocation = &run["invocations"][0];
    assert!(invocation["executionSuccessful"].is_boolean());
    for notification in list(&invocation["toolExecutionNotifications"]) {
        has_only(notification, &["level", "descriptor", "message"]);
        check_message(&notification["message"]);
    }
}

#[test]
fn every_result_names_a_rule_and_a_place() {
    let log = log();
    let run = &log["runs"][0];
    let rules = list(&run["tool"]["driver"]["rules"]);
    let results = list(&run["results"]);
    assert_eq!(results.len(), 3);
    for result in results {
        check_message(&result["message"]);
        let index = result["ruleIndex"].as_u64().unwrap() as usize;
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert_eq!((&result["level"], &result["kind"]), (&"error".into(), &"fail".into()));
        list(&result["locations"]).iter().for_each(check_location);
        let related = list(&result["relatedLocations"]);
        related.iter().for_each(check_location);
        let ids: Vec<_> = related.iter().map(|location| location["id"].as_u64()).collect();
        assert_eq!(ids, (1..=related.len() as u64).map(Some).collect::<Vec<_>>());
        assert!(object(&result["partialFingerprints"]).values().all(Value::is_string));
    }
}

#[test]
fn a_result_is_at_the_users_line_and_the_ptx_beside_it() {
    let log = log();
    let results = list(&log["runs"][0]["results"]);
    let hang = results.iter().find(|result| result["ruleId"] == "deadlock").unwrap();
    let physical = &hang["locations"][0]["physicalLocation"];
    assert_eq!(physical["artifactLocation"]["uri"], "varlen.py");
    assert_eq!(physical["region"]["startLine"], 43);
    let ptx = &hang["relatedLocations"][0]["physicalLocation"];
    assert_eq!(ptx["artifactLocation"]["uri"], "tests/fail/ragged_causal_tile_count.ptx");
    assert_eq!(ptx["region"]["startLine"], 84);
    let replay = "sixwarp check tests/fail/ragged_causal_tile_count.ptx --replay eager";
    assert_eq!(hang["properties"]["replay"], replay);
}
