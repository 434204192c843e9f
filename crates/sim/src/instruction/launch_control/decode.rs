//! Decoding of `clusterlaunchcontrol`.

use crate::instruction::LaunchControl;
use crate::load::{Decoded, Loader, arg};
use crate::register::{R32, Reg};
use ptx::resolve::Resolved;

impl<'m> Loader<'m> {
    pub(crate) fn cluster_launch_control(&mut self, i: &Resolved<'m>) -> Decoded<()> {
        let has = |name: &str| i.instruction.has(name);
        if has("try_cancel") {
            let (dst, mbar) = (self.address(i, 0)?, self.address(i, 1)?);
            let multicast = has("multicast::cluster::all");
            self.emit(i, LaunchControl::TryCancel { dst, mbar, multicast });
            return Ok(());
        }
        let Reg::R128(response) = self.reg(i, 1)? else {
            return Err("the response must be a 128-bit register".into());
        };
        let op = match has("is_canceled") {
            true => {
                LaunchControl::IsCanceled { d: self.predicate_destination(arg(i, 0)?)?, response }
            }
            false => LaunchControl::FirstCta { d: self.first_cta(i)?, response },
        };
        self.emit(i, op);
        Ok(())
    }

    /// Destinations of `get_first_ctaid`: a vector of all coordinates, or one named.
    fn first_cta(&mut self, i: &Resolved<'m>) -> Decoded<[Option<R32>; 3]> {
        let first = arg(i, 0)?.clone();
        let elements = self.elements(&first);
        let axes = ["get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"];
        let from = axes.iter().position(|axis| i.instruction.has(axis)).unwrap_or(0);
        let mut d = [None; 3];
        for (element, d) in elements.iter().zip(&mut d[from..]) {
            *d = match self.destination(element)? {
                Some(Reg::R32(r)) => Some(r),
                Some(_) => return Err("a coordinate of a CTA has 32 bits".into()),
                None => None,
            };
        }
        Ok(d)
    }
}
