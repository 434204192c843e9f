//! What kernels call in every driver: `printf` and failed assertions.

use crate::exec::Flow;
use crate::instruction::Place;
use crate::instruction::SystemCall;
use crate::machine::{Machine, Run};
use crate::memory::address::{self, Window};
use crate::register::{Lane, lanes};
use crate::warp::WarpId;

/// Lines of output kept per cluster.
const MAX_LINES: usize = 1000;
/// Characters of a string that are looked at.
const MAX_STRING: u64 = 4096;

impl Machine<'_> {
    pub(crate) fn system_call(
        &mut self,
        w: WarpId,
        call: SystemCall,
        arguments: &[u32],
        result: Option<u32>,
        mask: u32,
    ) -> Run<Flow> {
        for lane in lanes(mask) {
            let word = |this: &Self, index: usize, bytes: u32| {
                arguments.get(index).map_or(0, |at| this.read(w, lane, Place::Local(*at), bytes))
            };
            match call {
                SystemCall::Print => {
                    let format = word(self, 0, 8);
                    let format = self.string(w, lane, format);
                    let values = word(self, 1, 8);
                    let text = self.formatted(w, lane, &format, values);
                    if self.notes.len() < MAX_LINES {
                        let (cta, thread) = (self.ctas[self.warps[w].cta].id, self.thread(w, lane));
                        let text = text.trim_end_matches('\n');
                        self.notes.push(format!("printf of CTA {cta:?}, thread {thread}: {text}"));
                    }
                    if let Some(at) = result {
                        self.write(w, lane, Place::Local(at), 4, text_length(&format));
                    }
                }
                SystemCall::AssertionFailed => {
                    let [message, file, function] = [0, 1, 3].map(|i| word(self, i, 8));
                    let [message, file, function] =
                        [message, file, function].map(|at| self.string(w, lane, at));
                    let line = word(self, 2, 4);
                    let text = format!(
                        "the assertion `{message}` failed in `{function}` ({file}, line {line})"
                    );
                    return self.fault(w, Some(lane), "assertion", text, None);
                }
            }
        }
        Ok(Flow::Next)
    }

    fn thread(&self, w: WarpId, lane: Lane) -> u32 {
        32 * self.warps[w].index + lane.0 as u32
    }

    /// One byte behind a generic address; 0 where there is none.
    fn generic_byte(&self, w: WarpId, lane: Lane, at: u64) -> u8 {
        let place = match address::window(at) {
            Window::Global(at) => Place::Global(at),
            Window::Local(at) if at < self.kernel.local_bytes.into() => Place::Local(at as u32),
            _ => return 0,
        };
        self.read(w, lane, place, 1) as u8
    }

    fn string(&self, w: WarpId, lane: Lane, at: u64) -> String {
        let bytes: Vec<u8> = (at..at.saturating_add(MAX_STRING))
            .map(|at| self.generic_byte(w, lane, at))
            .take_while(|byte| *byte != 0)
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The next value of a call's packed arguments.
    fn value(&self, w: WarpId, lane: Lane, at: &mut u64, bytes: u64) -> u64 {
        let from = at.checked_next_multiple_of(bytes).unwrap_or(0);
        *at = from.wrapping_add(bytes);
        (0..bytes).fold(0, |sum, i| {
            sum | u64::from(self.generic_byte(w, lane, from.wrapping_add(i))) << (8 * i)
        })
    }

    /// `printf`'s text. Flags and widths are left out, and so is the precision of all but `%f`; conversions keep their
    /// meaning.
    fn formatted(&self, w: WarpId, lane: Lane, format: &str, mut at: u64) -> String {
        let mut text = String::new();
        let mut rest = format.chars().peekable();
        while let Some(c) = rest.next() {
            if c != '%' {
                text.push(c);
                continue;
            }
            let (mut long, mut precision) = (0, None);
            let conversion = loop {
                match rest.next() {
                    Some('l' | 'z' | 't' | 'j') => long += 1,
                    Some('*') => {
                        self.value(w, lane, &mut at, 4);
                    }
                    Some('.') => precision = Some(0),
                    Some(digit @ '0'..='9') => precision = precision.map(|p| next_digit(p, digit)),
                    Some(c) if "+-# h".contains(c) => {}
                    other => break other,
                }
            };
            let integer = if long > 0 { 8 } else { 4 };
            let Some(conversion) = conversion else { break };
            text += &match conversion {
                'd' | 'i' => {
                    let value = self.value(w, lane, &mut at, integer);
                    let shift = 64 - 8 * integer;
                    ((value << shift) as i64 >> shift).to_string()
                }
                'u' => self.value(w, lane, &mut at, integer).to_string(),
                'x' | 'X' => format!("{:x}", self.value(w, lane, &mut at, integer)),
                'o' => format!("{:o}", self.value(w, lane, &mut at, integer)),
                'c' => char::from(self.value(w, lane, &mut at, 4) as u8).to_string(),
                'f' | 'F' => fixed(f64::from_bits(self.value(w, lane, &mut at, 8)), precision),
                'g' | 'G' | 'e' | 'E' | 'a' | 'A' => {
                    f64::from_bits(self.value(w, lane, &mut at, 8)).to_string()
                }
                'p' => format!("{:#x}", self.value(w, lane, &mut at, 8)),
                's' => {
                    let pointer = self.value(w, lane, &mut at, 8);
                    self.string(w, lane, pointer)
                }
                other => other.to_string(),
            };
        }
        text
    }
}

/// A number of decimal places, one digit further; more than 99 are not printed.
fn next_digit(number: usize, digit: char) -> usize {
    (10 * number + digit.to_digit(10).unwrap_or(0) as usize).min(99)
}

/// A value with its decimal places, six where none are asked for.
fn fixed(value: f64, places: Option<usize>) -> String {
    match value.is_finite() {
        true => format!("{value:.*}", places.unwrap_or(6)),
        false => value.to_string().to_lowercase(),
    }
}

/// What `printf` returns: the number of its arguments.
fn text_length(format: &str) -> u64 {
    let escaped = format.matches("%%").count();
    (format.matches('%').count() - 2 * escaped) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_places_that_are_asked_for() {
        assert_eq!((fixed(1.5, None), fixed(1.56, Some(1))), ("1.500000".into(), "1.6".into()));
        assert_eq!((fixed(-0.25, Some(0)), fixed(f64::NAN, None)), ("-0".into(), "nan".into()));
        assert_eq!((next_digit(1, '2'), next_digit(99, '9')), (12, 99));
    }
}
