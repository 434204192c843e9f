//! What the library has written.

use crate::AnyError;
use serde::Deserialize;
use std::fmt::Write;
use std::path::Path;

/// What a process did in all.
#[derive(Deserialize)]
struct Process {
    captured: u64,
}

/// How far a launch has come.
#[derive(Deserialize)]
struct Launch {
    state: String,
    kernel: String,
    result: Option<i32>,
}

/// Everything in a folder of launches.
#[derive(Default)]
pub struct Written {
    processes: u64,
    /// Launches that were written.
    pub captured: u64,
    /// Those that did not end well, by folder.
    open: Vec<(String, Launch)>,
}

impl Written {
    /// Reads a folder.
    pub fn read(folder: &Path) -> Result<Written, AnyError> {
        let mut written = Written::default();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.ends_with("-summary.json") {
                let process: Process = serde_json::from_str(&std::fs::read_to_string(&path)?)?;
                written.processes += 1;
                written.captured += process.captured;
            } else if let Ok(text) = std::fs::read_to_string(path.join("state.json")) {
                let launch: Launch = serde_json::from_str(&text)?;
                if launch.state != "finished" {
                    written.open.push((name, launch));
                }
            }
        }
        written.open.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(written)
    }

    /// How many launches there are, and which did not end.
    pub fn summary(&self, folder: &Path) -> String {
        let mut text = String::new();
        for (name, launch) in &self.open {
            let path = folder.join(name).join("launch.json");
            // Writing to a string does not fail.
            let _ = writeln!(text, "sixwarp: kernel `{}` {}", launch.kernel, launch.outcome());
            let _ = writeln!(text, "         check it: sixwarp check {}", path.display());
        }
        let _ = match (self.processes, self.captured) {
            (0, _) => writeln!(
                text,
                "sixwarp: the command never called the CUDA driver, so nothing was captured: it loaded no libcuda.so.1, or it \
                 was linked statically"
            ),
            (_, 0) => writeln!(text, "sixwarp: nothing was captured"),
            (_, count) => {
                let folder = folder.display();
                writeln!(
                    text,
                    "sixwarp: {count} launches captured; check them: sixwarp check {folder}"
                )
            }
        };
        text
    }
}

impl Launch {
    fn outcome(&self) -> String {
        let result = self.result.unwrap_or_default();
        match self.state.as_str() {
            "refused" => format!("was refused by the driver (error {result})"),
            "failed" => format!("failed (error {result})"),
            _ => "was started, and it is not known to have ended".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_that_did_not_end_are_named() {
        let folder = files::Scratch::new().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.file(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert!(
            Written::read(folder.path()).unwrap().summary(Path::new("c")).contains("never called")
        );
        write("7-summary.json", r#"{"launches": 9, "captured": 2, "notes": []}"#);
        write("7-0001/state.json", r#"{"state": "finished", "kernel": "a", "result": 0}"#);
        write("7-0002/state.json", r#"{"state": "started", "kernel": "b", "result": null}"#);
        let written = Written::read(folder.path()).unwrap();
        let text = written.summary(Path::new("c"));
        assert!(text.contains("kernel `b` was started") && !text.contains("`a`"), "{text}");
        assert!(text.contains("check it: sixwarp check c/7-0002/launch.json"), "{text}");
        assert!(text.contains("2 launches captured"), "{text}");
    }
}
