//! What is told of a capture: on the terminal, and to the program that started it.

use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// What became of launches so far.
pub struct Record {
    folder: PathBuf,
    captured: u64,
    told: BTreeSet<String>,
}

impl Record {
    /// Nothing yet; that the library is at work is written.
    pub fn new(folder: PathBuf) -> Record {
        let record = Record { folder, captured: 0, told: BTreeSet::new() };
        record.write(0);
        record
    }

    /// A launch was written.
    pub fn captured(&mut self, launches: u64) {
        self.captured += 1;
        self.write(launches);
    }

    /// Tells something once.
    pub fn tell(&mut self, launches: u64, text: String) {
        if self.told.insert(text.clone()) {
            eprintln!("sixwarp: {text}");
            self.write(launches);
        }
    }

    /// Writes how far it has come.
    pub fn write(&self, launches: u64) {
        let path = self.folder.join(format!("{}-summary.json", std::process::id()));
        let (captured, notes) = (self.captured, &self.told);
        let value = json!({"launches": launches, "captured": captured, "notes": notes});
        if let Err(error) = files::write(&path, format!("{value:#}\n")) {
            eprintln!("sixwarp: {error}");
        }
    }
}
