//! Architectures (rules 1 and 2).

use super::Findings;
use crate::ast::Module;
use std::fmt;

/// An architecture and PTX version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The number of `sm_90a`.
    pub(super) sm: u32,
    /// Whether it has the architecture's own features: `sm_90a`, `sm_100f`.
    pub(super) accelerated: bool,
    /// `.version`.
    pub(super) version: Version,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.sm, if self.accelerated { "a" } else { "" })
    }
}

/// A PTX version, such as `(8, 7)`.
type Version = (u32, u32);

/// When each architecture came, without and with its own features.
const ARCHITECTURES: &[(u32, Version, Option<Version>)] = &[
    (50, (4, 0), None),
    (52, (4, 1), None),
    (53, (4, 2), None),
    (60, (5, 0), None),
    (61, (5, 0), None),
    (62, (5, 0), None),
    (70, (6, 0), None),
    (72, (6, 1), None),
    (75, (6, 3), None),
    (80, (7, 0), None),
    (86, (7, 1), None),
    (87, (7, 4), None),
    (88, (9, 0), None),
    (89, (7, 8), None),
    (90, (7, 8), Some((8, 0))),
    (100, (8, 6), Some((8, 6))),
    (101, (8, 6), Some((8, 6))),
    (103, (8, 8), Some((8, 8))),
    (110, (9, 0), Some((9, 0))),
    (120, (8, 7), Some((8, 7))),
    (121, (8, 8), Some((8, 8))),
];

/// What may stand behind the architecture.
const TARGET_OPTIONS: [&str; 4] =
    ["texmode_unified", "texmode_independent", "map_f64_to_f32", "debug"];

/// Whether a version exists, or may come.
fn is_version((major, minor): Version) -> bool {
    const LAST_MINORS: [u32; 8] = [5, 3, 2, 3, 1, 5, 8, 8];
    let last = major.checked_sub(1).and_then(|i| LAST_MINORS.get(i as usize));
    match last {
        Some(last) => minor <= *last,
        None => matches!(major, 9 | 10) && minor <= 9,
    }
}

/// The family variants (`sm_100f`) came with this version.
const FAMILY_VERSION: Version = (8, 8);

/// Checks the header; the target, if it is known.
pub(super) fn check(module: &Module, found: &mut Findings) -> Option<Target> {
    if module.address_size != 64 {
        let message = format!("{} is not supported: addresses have 64 bits", module.address_size);
        found.add(2, ".address_size", message);
    }
    if !is_version(module.version) {
        let message = format!("there is no PTX version {}", version_text(module.version));
        found.add(1, ".version", message);
    }
    for option in module.target.iter().skip(1).map(|name| name.as_str()) {
        if !TARGET_OPTIONS.contains(&option) && architecture(option).is_none() {
            found.add(
                1,
                format!(".target {option}"),
                "neither an architecture nor an option".into(),
            );
        }
    }
    let name = module.target.first()?.as_str();
    let Some((sm, suffix, needed)) = architecture(name) else {
        found.add(1, format!(".target {name}"), "not a known architecture".into());
        return None;
    };
    if module.version < needed {
        let (have, need) = (version_text(module.version), version_text(needed));
        found.add(1, format!(".target {name}"), format!("needs .version {need}, found {have}"));
    }
    Some(Target { sm, accelerated: !suffix.is_empty(), version: module.version })
}

/// Number, suffix and oldest version of the architecture called `name`.
fn architecture(name: &str) -> Option<(u32, &str, Version)> {
    let number = name.strip_prefix("sm_")?;
    let digits = number.trim_end_matches(['a', 'f']);
    let suffix = &number[digits.len()..];
    let sm = digits.parse().ok()?;
    let &(_, plain, own) = ARCHITECTURES.iter().find(|(number, ..)| *number == sm)?;
    let version = match suffix {
        "" => plain,
        "a" => own?,
        "f" if sm >= 100 => own?.max(FAMILY_VERSION),
        _ => return None,
    };
    Some((sm, suffix, version))
}

/// `8.7`.
pub(super) fn version_text((major, minor): Version) -> String {
    format!("{major}.{minor}")
}
