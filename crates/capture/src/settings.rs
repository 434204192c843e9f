//! Settings, by environment variables.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Which launches are written, and where to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `SIXWARP_CAPTURE`: the folder that launches are written to. Without one nothing is.
    pub folder: PathBuf,
    /// `SIXWARP_CAPTURE_NAME`: a part of the names of kernels.
    pub name: Option<String>,
    /// `SIXWARP_CAPTURE_NTH`: which of those launches, counted from 1; all without.
    pub nth: Option<u64>,
    /// `SIXWARP_CAPTURE_LIMIT`: how many launches of a process are written at most.
    pub limit: Option<u64>,
    /// `SIXWARP_CAPTURE_MIB`: launches that can reach more memory are not written; 1024 without.
    pub most_bytes: u64,
    /// `SIXWARP_CAPTURE_PTX`: folders with the PTX of kernels that come as machine code, with colons between.
    pub ptx: Vec<PathBuf>,
    /// `SIXWARP_CAPTURE_OUTPUTS`: memory after a launch is written too.
    pub outputs: bool,
    /// `SIXWARP_CAPTURE_NO_WAIT`: launches are not waited for.
    pub no_wait: bool,
}

/// The settings, read once; nothing if no folder is named.
pub fn settings() -> Option<&'static Settings> {
    static SETTINGS: OnceLock<Option<Settings>> = OnceLock::new();
    SETTINGS.get_or_init(|| Settings::read(|name| std::env::var_os(name))).as_ref()
}

impl Settings {
    fn read(variable: impl Fn(&str) -> Option<OsString>) -> Option<Settings> {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |name: &str| given(name).map(|value| value.to_string_lossy().into_owned());
        let number = |name: &str| text(name).and_then(|text| text.trim().parse::<u64>().ok());
        let flag = |name: &str| given(name).is_some_and(|value| value != "0");
        let folders = given("SIXWARP_CAPTURE_PTX").unwrap_or_default();
        Some(Settings {
            folder: given("SIXWARP_CAPTURE")?.into(),
            name: text("SIXWARP_CAPTURE_NAME"),
            nth: number("SIXWARP_CAPTURE_NTH"),
            limit: number("SIXWARP_CAPTURE_LIMIT"),
            most_bytes: number("SIXWARP_CAPTURE_MIB").unwrap_or(1024).saturating_mul(1 << 20),
            ptx: std::env::split_paths(&folders).collect(),
            outputs: flag("SIXWARP_CAPTURE_OUTPUTS"),
            no_wait: flag("SIXWARP_CAPTURE_NO_WAIT"),
        })
    }
}

/// Counts launches, and chooses those that are written.
#[derive(Debug, Default)]
pub struct Counter {
    /// Launches so far.
    pub launches: u64,
    /// Launches whose names fit.
    named: u64,
    /// Launches that were chosen.
    chosen: u64,
}

impl Counter {
    /// Counts a launch; its number if it is chosen.
    pub fn next(&mut self, settings: &Settings, kernel: &str) -> Option<u64> {
        self.launches += 1;
        if !settings.name.as_ref().is_none_or(|name| kernel.contains(name)) {
            return None;
        }
        self.named += 1;
        let is_nth = settings.nth.is_none_or(|nth| nth == self.named);
        let is_within = settings.limit.is_none_or(|limit| self.chosen < limit);
        (is_nth && is_within).then(|| {
            self.chosen += 1;
            self.launches
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(variables: &[(&str, &str)]) -> Vec<u64> {
        let all = [("SIXWARP_CAPTURE", "here")].iter().chain(variables);
        let variable = |name: &str| {
            all.clone().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        };
        let settings = Settings::read(variable).unwrap();
        let mut counter = Counter::default();
        let kernels = ["add", "softmax", "add", "matmul", "add"];
        kernels.iter().filter_map(|kernel| counter.next(&settings, kernel)).collect()
    }

    #[test]
    fn launches_are_chosen_by_name_number_and_limit() {
        assert_eq!(chosen(&[]), [1, 2, 3, 4, 5]);
        assert_eq!(chosen(&[("SIXWARP_CAPTURE_NAME", "add")]), [1, 3, 5]);
        assert_eq!(chosen(&[("SIXWARP_CAPTURE_NAME", "add"), ("SIXWARP_CAPTURE_NTH", "2")]), [3]);
        assert_eq!(chosen(&[("SIXWARP_CAPTURE_LIMIT", "2")]), [1, 2]);
        assert_eq!(chosen(&[("SIXWARP_CAPTURE_NTH", "4")]), [4]);
    }

    #[test]
    fn without_a_folder_there_is_nothing_to_do() {
        assert_eq!(Settings::read(|_| None), None);
        assert_eq!(Settings::read(|_| Some(OsString::new())), None);
    }
}
