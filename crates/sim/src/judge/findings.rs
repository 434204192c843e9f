//! Findings: reported, or counted where their rule is allowed.

use super::Judge;
use crate::error::{Fault, Finding, Hazard, Site};
use crate::machine::{Machine, Run};
use crate::options::Options;
use crate::register::Lane;
use crate::rules::{Rule, count};
use crate::warp::WarpId;

impl Judge<'_> {
    /// A fault at the warp's current instruction, unless its rule is allowed.
    pub(crate) fn survivable(
        &self,
        machine: &Machine<'_>,
        warp: WarpId,
        lane: Option<Lane>,
        rule: Rule,
        message: String,
        help: Option<&str>,
    ) -> Run<()> {
        self.survivable_at(machine.site(warp, machine.pc(warp), lane), rule, message, help)
    }

    /// A fault somewhere, unless its rule is allowed.
    pub(crate) fn survivable_at(
        &self,
        site: Site,
        rule: Rule,
        message: String,
        help: Option<&str>,
    ) -> Run<()> {
        let help = help.map(String::from);
        let fault = Fault { rule: rule.name(), message, site, help, survivable: true };
        self.report(rule, Finding::Fault(Box::new(fault)))
    }

    /// A hazard at the warp's current instruction, unless its rule is allowed.
    pub(crate) fn hazard(
        &self,
        machine: &Machine<'_>,
        warp: WarpId,
        rule: Rule,
        message: String,
        other: Option<(String, Site)>,
        help: Option<&str>,
    ) -> Run<()> {
        let site = machine.site(warp, machine.pc(warp), None);
        let help = help.map(String::from);
        self.report_hazard(Hazard { rule, message, site, other, help })
    }

    /// Ends the run with a hazard, unless its rule is allowed.
    pub(crate) fn report_hazard(&self, hazard: Hazard) -> Run<()> {
        self.report(hazard.rule, Finding::Hazard(Box::new(hazard)))
    }

    fn report(&self, rule: Rule, finding: Finding) -> Run<()> {
        let Options { allow, pedantic, .. } = self.launch.options;
        if !allow.contains(&rule) && (*pedantic || !rule.is_listed_only()) {
            return Err(Box::new(finding.into()));
        }
        count(&mut self.allowed.borrow_mut(), finding);
        Ok(())
    }

    /// A lane writes to a buffer that the program only reads.
    #[cold]
    pub(crate) fn refuse_write(
        &self,
        machine: &Machine<'_>,
        w: WarpId,
        lane: Lane,
        name: &str,
    ) -> Run<()> {
        let message = format!("write to `{name}`, which the program only reads");
        let help = "say that the buffer is written, too (`Access::ReadWrite`; `+rw` behind its contents on the \
                    command line)";
        self.survivable(machine, w, Some(lane), Rule::ReadOnly, message, Some(help))
    }
}
