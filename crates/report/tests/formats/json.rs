use super::report;
use serde_json::Value;
use sixwarp_report::{FORMAT_VERSION, Report};

#[test]
fn a_report_is_read_back() {
    let report = report();
    let read: Report = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!(read, report);
    assert_eq!(read.version, FORMAT_VERSION);
}

/// The fields that docs/check-ptx.md describes.
#[test]
fn documented_fields_are_there() {
    let json: Value = serde_json::from_str(&report().to_json()).unwrap();
    let race = &json["checked"][0]["findings"][0];
    assert_eq!((&race["kind"], &race["rule"]), (&"hazard".into(), &"race".into()));
    assert_eq!(race["schedule"]["mode"], "eager");
    assert_eq!(race["places"][0]["ptx_line"], 21);
    assert_eq!(race["places"][0]["thread"]["cta"], serde_json::json!([0, 0, 0]));
    assert_eq!(race["places"][1]["instruction"], "ld.shared.b32 o, [r1];");
    let hang = &json["checked"][1]["findings"][0];
    assert_eq!(hang["places"][0]["source"]["file"], "varlen.py");
    assert_eq!(hang["places"][0]["source"]["text"], "        full.wait(t)");
    let barrier = &hang["hang"]["barriers"][0];
    assert_eq!((barrier["arrived"].as_i64(), barrier["expected"].as_i64()), (Some(0), Some(1)));
    assert_eq!(barrier["arrivals"][0]["exited"], true);
    assert_eq!(hang["hang"]["last_deeds"][1]["exited"], false);
    assert_eq!(json["checked"][3]["unchecked"]["why"], "unsupported");
}
