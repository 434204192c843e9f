//! SARIF 2.1.0, the form in which code hosts and editors take findings.

use crate::finding::Finding;
use crate::place::Place;
use crate::summary::{Checked, Report, Unchecked};
use serde_json::{Value, json};
use std::path::{Component, Path};
use std::str::FromStr;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
const PROJECT: &str = "https://github.com/sixwarp/sixwarp";

impl Report {
    /// The report as SARIF 2.1.0. Paths under `base` are written relative to it, as code hosts want them.
    pub fn to_sarif(&self, base: &Path) -> String {
        let rules = self.rules();
        let found = self.findings();
        let results: Vec<Value> = found.map(|(c, f)| result(c, f, &rules, base)).collect();
        let driver = json!({
            "name": self.tool.name,
            "version": self.tool.version,
            "informationUri": PROJECT,
            "rules": rules.iter().map(|rule| rule_entry(rule)).collect::<Vec<_>>(),
        });
        let notifications: Vec<Value> = self.checked.iter().filter_map(notification).collect();
        let log = json!({
            "$schema": SCHEMA,
            "version": "2.1.0",
            "runs": [{
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "invocations": [{
                    "executionSuccessful": self.exit_code() < 2,
                    "toolExecutionNotifications": notifications,
                }],
                "results": results,
            }],
        });
        serde_json::to_string_pretty(&log).expect("plain data") + "\n"
    }

    /// The rules that were broken, each once and in order of their names.
    fn rules(&self) -> Vec<String> {
        let mut rules: Vec<String> = self.findings().map(|(_, f)| f.rule.clone()).collect();
        rules.sort();
        rules.dedup();
        rules
    }
}

fn rule_entry(rule: &str) -> Value {
    let summary = rule_summary(rule);
    json!({
        "id": rule,
        "shortDescription": {"text": summary},
        "defaultConfiguration": {"level": "error"},
    })
}

/// What a rule says.
pub(crate) fn rule_summary(rule: &str) -> String {
    if let Ok(rule) = sim::Rule::from_str(rule) {
        return rule.summary().to_owned();
    }
    if let Some(number) = rule.strip_prefix("ptx-").filter(|n| n.parse::<u8>().is_ok()) {
        return format!("rule {number} of PTX, as sixwarp-ptx lists them");
    }
    match rule {
        "deadlock" => "every wait ends: what a warp waits for happens".into(),
        "ptx-syntax" => "the text is PTX".into(),
        _ if is_launch_rule(rule) => {
            format!("rule {rule} of launches, as sixwarp-program lists them")
        }
        _ => format!("the machine's rule `{rule}`"),
    }
}

fn is_launch_rule(rule: &str) -> bool {
    rule.strip_prefix(['L', 'T', 'W']).is_some_and(|number| number.parse::<u8>().is_ok())
}

fn result(checked: &Checked, finding: &Finding, rules: &[String], base: &Path) -> Value {
    let first = finding.place().cloned().unwrap_or_default();
    let related = related(checked, finding, base);
    let mut value = json!({
        "ruleId": finding.rule,
        "ruleIndex": rules.iter().position(|rule| *rule == finding.rule),
        "level": "error",
        "kind": "fail",
        "message": {"text": message(checked, finding)},
        "locations": [location(checked, &first, base)],
        "relatedLocations": related,
        "partialFingerprints": {"sixwarp/v1": fingerprint(checked, finding)},
    });
    if let Some(schedule) = finding.schedule {
        let replay = checked.replay(&schedule.to_string());
        value["properties"] = json!({"schedule": schedule.to_string(), "replay": replay});
    }
    value
}

/// What happened, the remedies, and how to see it again.
fn message(checked: &Checked, finding: &Finding) -> String {
    let mut text = finding.message.clone();
    finding.remedies.iter().for_each(|remedy| text += &format!("\nHelp: {remedy}"));
    if let Some(schedule) = finding.schedule {
        text += &format!("\nReplay: {}", checked.replay(&schedule.to_string()));
    }
    text
}

/// Every other place, and of the first one its PTX where the location is the source.
fn related(checked: &Checked, finding: &Finding, base: &Path) -> Vec<Value> {
    let ptx = finding.places.iter().take(1).filter(|place| place.source.is_some());
    let ptx = ptx.map(|place| {
        let place = Place { source: None, ..place.clone() };
        (format!("compiled to: {}", place.instruction), place)
    });
    let others = finding.places.iter().skip(1).map(|place| {
        let thread = place.thread.map_or(String::new(), |thread| format!(", {thread}"));
        (format!("{}{thread}: {}", place.role, place.instruction), place.clone())
    });
    let all = ptx.chain(others).enumerate();
    let entry = |(id, (text, place)): (usize, (String, Place))| {
        let mut value = location(checked, &place, base);
        value["id"] = json!(id + 1);
        value["message"] = json!({"text": text});
        value
    };
    all.map(entry).collect()
}

fn location(checked: &Checked, place: &Place, base: &Path) -> Value {
    let (path, line) = match &place.source {
        Some(source) => (source.file.as_str(), source.line),
        // Of a command's launch that was not saved there is no file with that line.
        None if checked.ptx.is_none() && checked.command.is_some() => (checked.path.as_str(), 1),
        None => (checked.ptx.as_deref().unwrap_or(&checked.path), place.ptx_line),
    };
    // What has no line is about the whole file, which code hosts show at its first line.
    let mut region = json!({"startLine": line.max(1)});
    if let Some(text) = place.source.as_ref().and_then(|source| source.text.as_ref()) {
        region["snippet"] = json!({"text": text});
    }
    let physical = json!({"artifactLocation": {"uri": uri(path, base)}, "region": region});
    let mut value = json!({"physicalLocation": physical});
    if !place.kernel.is_empty() {
        value["logicalLocations"] = json!([{"name": place.kernel, "kind": "function"}]);
    }
    value
}

/// A path as a URI reference: relative where it lies under `base`.
fn uri(path: &str, base: &Path) -> String {
    let path = Path::new(path);
    let path = path.strip_prefix(base).unwrap_or(path);
    let mut parts: Vec<String> = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(encoded(&part.to_string_lossy())),
            Component::ParentDir => parts.push("..".into()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    let joined = parts.join("/");
    if path.is_absolute() { format!("file:///{joined}") } else { joined }
}

fn encoded(part: &str) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-._~+@$&()!,=".contains(b);
    let byte = |b: u8| if plain(&b) { char::from(b).to_string() } else { format!("%{b:02X}") };
    part.bytes().map(byte).collect()
}

/// The same for the same mistake in the next version of the text: rule, kernel and instructions, no lines.
fn fingerprint(checked: &Checked, finding: &Finding) -> String {
    let kernel = checked.kernel.as_deref().unwrap_or_default();
    let places = finding.places.iter().map(|place| place.instruction.as_str());
    let parts: Vec<&str> = [finding.rule.as_str(), kernel].into_iter().chain(places).collect();
    // FNV-1a: any stable hash does.
    let hash = parts.join("\n").bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// What could not be checked is told as a notification, because it is no result.
fn notification(checked: &Checked) -> Option<Value> {
    let (level, id, text) = match checked.unchecked.as_ref()? {
        Unchecked::Unreadable { message } => ("error", "unreadable", message.clone()),
        Unchecked::Unsupported { message, place } => {
            let text = format!("unsupported: {message} (PTX line {})", place.ptx_line);
            ("warning", "unsupported", text)
        }
        Unchecked::Limit { message, .. } => ("warning", "limit", message.clone()),
    };
    let text = format!("{}: {text}", checked.title());
    Some(json!({"level": level, "descriptor": {"id": id}, "message": {"text": text}}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_references() {
        let base = Path::new("/home/me/work");
        assert_eq!(uri("/home/me/work/my kernels/a.py", base), "my%20kernels/a.py");
        assert_eq!(uri("/usr/lib/x.py", base), "file:///usr/lib/x.py");
        assert_eq!(uri("./k.ptx", base), "k.ptx");
        assert_eq!(uri("../k#1.ptx", base), "../k%231.ptx");
    }

    #[test]
    fn rules_say_what_they_are() {
        assert!(rule_summary("race").contains("ordered"));
        assert_eq!(rule_summary("ptx-12"), "rule 12 of PTX, as sixwarp-ptx lists them");
        assert_eq!(rule_summary("L9"), "rule L9 of launches, as sixwarp-program lists them");
        assert_eq!(rule_summary("trap"), "the machine's rule `trap`");
    }
}
