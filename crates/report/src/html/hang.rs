//! The part of a page that is about a deadlock.

use super::{Places, escaped, whereabouts};
use crate::hang::{Arrivals, Barrier, Hang, LastDeed, Waiter};
use crate::place::Place;

impl Places<'_> {
    /// Who waits, what came to the barriers, and the last thing that each warp did.
    pub(super) fn hang(&self, hang: &Hang) -> String {
        let origin = self.finding.places.len().saturating_sub(hang.waiters.len());
        let origin: String =
            self.finding.places.iter().take(origin).map(|p| self.card("The cause", p)).collect();
        let waiters: String = hang.waiters.iter().map(|waiter| self.waiter(waiter)).collect();
        format!(
            "<section id=\"waiting\">\n<h2>Which warps wait for what</h2>\n<div class=\"pair\">\n{origin}{waiters}\
             </div>\n</section>\n{}{}",
            barriers(&hang.barriers),
            last_deeds(&hang.last_deeds)
        )
    }

    fn waiter(&self, Waiter { place, warps, awaits, .. }: &Waiter) -> String {
        self.card("", &Place { role: format!("{warps} waits for {awaits}"), ..place.clone() })
    }
}

fn barriers(barriers: &[Barrier]) -> String {
    let tables: String = barriers.iter().map(barrier).collect();
    match tables.is_empty() {
        true => String::new(),
        false => format!(
            "<section id=\"barriers\">\n<h2>What came to the barriers</h2>\n{tables}</section>\n"
        ),
    }
}

fn barrier(barrier: &Barrier) -> String {
    let Barrier { name, phase, arrived, expected, missing_bytes, initialised, .. } = barrier;
    let bytes = match missing_bytes {
        0 => String::new(),
        n => format!(" {n} bytes are outstanding."),
    };
    let rows: String = barrier.arrivals.iter().map(|a| arrivals(a, *phase)).collect();
    let rows = match rows.is_empty() {
        true => {
            "<tr class=\"lacks\"><td colspan=\"6\">no warp has arrived at it so far</td></tr>\n"
                .into()
        }
        false => rows,
    };
    format!(
        "<p>mbarrier <code>{}</code>: phase {phase} has <b>{arrived} of {expected}</b> arrivals.{bytes} \
         <span class=\"pale\">Initialised at PTX line {}.</span></p>\n<table>\n<tr><th>warps</th><th>arrivals of \
         each</th><th>phases</th><th>last phase</th><th>last arrival</th><th>now</th></tr>\n{rows}</table>\n",
        escaped(name.trim_matches('`')),
        initialised.ptx_line
    )
}

fn arrivals(arrivals: &Arrivals, phase: u64) -> String {
    let lacks = if arrivals.last_phase < phase { " class=\"lacks\"" } else { "" };
    let now = if arrivals.exited { "exited" } else { "runs or waits" };
    format!(
        "<tr{lacks}><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>\
         <td>{}<br><code>{}</code></td><td>{now}</td></tr>\n",
        escaped(&arrivals.warps),
        arrivals.count,
        arrivals.phases,
        arrivals.last_phase,
        whereabouts(&Place { thread: None, ..arrivals.place.clone() }),
        escaped(&arrivals.place.instruction)
    )
}

fn last_deeds(deeds: &[LastDeed]) -> String {
    let row = |LastDeed { warps, exited, place }: &LastDeed| {
        format!(
            "<tr><td>{}</td><td>{}</td><td>{}<br><code>{}</code></td></tr>\n",
            escaped(warps),
            if *exited { "exited" } else { "waits" },
            whereabouts(&Place { thread: None, ..place.clone() }),
            escaped(&place.instruction)
        )
    };
    let rows: String = deeds.iter().map(row).collect();
    format!(
        "<section id=\"last-deeds\">\n<h2>The last thing each warp did</h2>\n<table>\n<tr><th>warps</th><th>now</th>\
         <th>last instruction before</th></tr>\n{rows}</table>\n</section>\n"
    )
}
