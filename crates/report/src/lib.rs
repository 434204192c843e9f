//! What a check of a kernel found, and how it is told.
//!
//! [`search()`] runs a launch under many [`Schedule`]s and keeps the first that fails. What it finds is a [`Finding`]:
//! plain data that can be written as JSON, read back, and told as text, SARIF or HTML. A [`Report`] is the outcome of
//! a whole check: files, launches, what was found, and what could not be checked.
//!
//! ```
//! use sixwarp_report::{Checked, Report, verify};
//!
//! let text = ".version 8.0 .target sm_90a .address_size 64 .entry k() { mov.b32 x, 1; }";
//! let findings = verify(text).1;
//! assert_eq!(findings[0].rule, "ptx-8");
//! let mut report = Report::default();
//! report.checked.push(Checked { findings, ..Checked::of("k.ptx") });
//! assert_eq!(report.exit_code(), 1);
//! assert!(report.to_json().contains("\"ptx-8\""));
//! ```

mod convert;
mod finding;
mod hang;
mod html;
mod place;
mod ptx_file;
mod sarif;
mod schedule;
mod search;
mod sources;
mod summary;
mod text;
mod timeline;

pub use convert::outcome_of;
pub use finding::{Finding, Kind};
pub use hang::{Arrivals, Barrier, Hang, LastDeed, Waiter};
pub use place::{Place, SourceLine, Thread};
pub use ptx_file::verify;
pub use schedule::{Mode, Schedule, ScheduleError, schedules};
pub use search::{Launch, Searched, search};
pub use sources::Sources;
pub use summary::{Allowed, Checked, FORMAT_VERSION, Report, Tool, Unchecked};
pub use text::{Colour, quoted};
pub use timeline::{Span, Step, Timeline, TimelineRow};
