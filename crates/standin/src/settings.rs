//! What the environment asks of the stand-in.

use sim::{Limits, Options};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

/// The settings of this process.
pub struct Settings {
    /// Architecture of the device, 90 or 100 (`SIXWARP_CHECK_DEVICE`).
    pub sm: u32,
    /// Modes that each launch is run in, with their options (`SIXWARP_CHECK_MODES`, `SIXWARP_CHECK_SEED`).
    pub modes: Vec<(String, Options)>,
    /// Seed of the random mode.
    pub seed: u64,
    /// Folder that findings are written to (`SIXWARP_CHECK_REPORT`).
    pub report: Option<PathBuf>,
    /// Whether memory that nothing has written may not be read (`SIXWARP_CHECK_UNINITIALISED`).
    pub uninitialised: bool,
    /// Bytes of memory that a saved launch may take (`SIXWARP_CHECK_SAVE`, in MiB).
    pub save_bytes: u64,
    /// Launches that are saved whatever is found in them (`SIXWARP_CHECK_LAUNCHES`).
    pub launches: Selection,
    /// How long launches may go on after the program's end (`SIXWARP_CHECK_EXIT_WAIT`, in seconds).
    pub exit_wait: Duration,
    /// Whether every launch is told of (`SIXWARP_CHECK_VERBOSE`).
    pub verbose: bool,
}

/// Launches that are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// None.
    None,
    /// Every so many, the first one included: 1 is all.
    Every(u64),
    /// Those of kernels whose names contain this.
    Named(String),
}

impl Selection {
    /// `all`, a number, or a part of a kernel's name.
    fn parse(text: &str) -> Selection {
        match (text.trim(), text.trim().parse::<u64>()) {
            ("" | "0", _) => Selection::None,
            ("all", _) => Selection::Every(1),
            (_, Ok(every)) => Selection::Every(every),
            (name, Err(_)) => Selection::Named(name.to_owned()),
        }
    }

    /// Whether a launch is chosen; the first has number 1.
    pub fn includes(&self, number: u64, kernel: &str) -> bool {
        match self {
            Selection::None => false,
            Selection::Every(every) => (number - 1).is_multiple_of(*every),
            Selection::Named(name) => kernel.contains(name.as_str()),
        }
    }
}

/// The settings, read once.
pub fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| Settings::read(|name| std::env::var(name).ok()))
}

const MODES: [&str; 4] = ["eager", "latest", "adversarial", "random"];

impl Settings {
    fn read(variable: impl Fn(&str) -> Option<String>) -> Settings {
        let number = |name: &str| variable(name).and_then(|text| text.trim().parse::<u64>().ok());
        let flag = |name: &str| variable(name).is_some_and(|text| !matches!(&*text, "" | "0"));
        let seed = number("SIXWARP_CHECK_SEED").unwrap_or(0);
        let asked = variable("SIXWARP_CHECK_MODES").unwrap_or_default();
        let names: Vec<&str> = match asked.trim() {
            "" => vec!["eager"],
            "all" => MODES.to_vec(),
            list => list.split(',').map(str::trim).collect(),
        };
        let limits = Limits {
            time: number("SIXWARP_CHECK_TIME").map(Duration::from_secs),
            ..Limits::default()
        };
        let mode = |name: &str| {
            let options = Options::mode(name, seed);
            if options.is_none() {
                eprintln!("sixwarp: no mode `{name}`: there are {} and pedantic", MODES.join(", "));
            }
            Some((name.to_owned(), Options { limits, ..options? }))
        };
        let mut modes: Vec<_> = names.into_iter().filter_map(mode).collect();
        if modes.is_empty() {
            modes.push(("eager".into(), Options { limits, ..Options::default() }));
        }
        Settings {
            sm: architecture(variable("SIXWARP_CHECK_DEVICE").as_deref()),
            modes,
            seed,
            report: variable("SIXWARP_CHECK_REPORT").filter(|p| !p.is_empty()).map(PathBuf::from),
            uninitialised: flag("SIXWARP_CHECK_UNINITIALISED"),
            save_bytes: number("SIXWARP_CHECK_SAVE").unwrap_or(256) << 20,
            launches: Selection::parse(&variable("SIXWARP_CHECK_LAUNCHES").unwrap_or_default()),
            exit_wait: Duration::from_secs(number("SIXWARP_CHECK_EXIT_WAIT").unwrap_or(60)),
            verbose: flag("SIXWARP_CHECK_VERBOSE"),
        }
    }
}

fn architecture(name: Option<&str>) -> u32 {
    match name.unwrap_or_default() {
        "" | "sm_90" | "sm_90a" | "90" => 90,
        "sm_100" | "sm_100a" | "100" => 100,
        other => {
            eprintln!("sixwarp: no device `{other}`: there are sm_90a and sm_100a; taking sm_90a");
            90
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_chooses_device_modes_and_folder() {
        let given = [
            ("SIXWARP_CHECK_DEVICE", "sm_100a"),
            ("SIXWARP_CHECK_MODES", "latest, random"),
            ("SIXWARP_CHECK_SEED", "7"),
            ("SIXWARP_CHECK_REPORT", "found"),
        ];
        let variable = |name: &str| {
            given.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let settings = Settings::read(variable);
        let names: Vec<&str> = settings.modes.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((settings.sm, names, settings.seed), (100, vec!["latest", "random"], 7));
        assert_eq!(settings.modes[1].1.seed, 7);
        assert_eq!(settings.report, Some("found".into()));
        assert!(!settings.uninitialised);
    }

    #[test]
    fn launches_are_chosen_by_number_or_name() {
        let chosen = |text: &str| -> Vec<u64> {
            (1..=5)
                .filter(|number| Selection::parse(text).includes(*number, "add_kernel"))
                .collect()
        };
        assert_eq!(chosen("all"), [1, 2, 3, 4, 5]);
        assert_eq!(chosen("3"), [1, 4]);
        assert_eq!(chosen("kernel").len(), 5);
        assert!(chosen("softmax").is_empty() && chosen("").is_empty());
    }

    #[test]
    fn a_wrong_name_leaves_the_usual_mode() {
        let settings =
            Settings::read(|name| (name == "SIXWARP_CHECK_MODES").then(|| "lazy".into()));
        assert_eq!(settings.modes.len(), 1);
        assert_eq!(settings.modes[0].0, "eager");
    }
}
