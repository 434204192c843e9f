//! The video instructions over two or four parts of a register (`vabsdiff4` and its kin), without
//! selectors and masks: compilers emit none.

/// A number of two parts.
type Parts = fn(i32, i32) -> i32;

/// What becomes of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finish {
    /// Each keeps its lowest bits.
    Wrap,
    /// Each is brought into the range of signed or unsigned parts.
    Saturate { signed: bool },
    /// They are added to the third operand.
    Accumulate,
}

/// One instruction.
#[derive(Clone, Copy, Debug)]
pub struct Video {
    parts: Parts,
    /// Bits of a part: 16 or 8.
    bits: u32,
    /// Whether the parts of each operand are signed.
    signed: [bool; 2],
    finish: Finish,
}

impl Video {
    /// Reads opcode and modifiers.
    pub fn parse(opcode: &str, modifiers: &[&str]) -> Option<Video> {
        let (name, bits) = match opcode.strip_suffix('2') {
            Some(name) => (name, 16),
            None => (opcode.strip_suffix('4')?, 8),
        };
        let (parts, modifiers): (Parts, _) = match (name, modifiers) {
            ("vset", [a, b, cmp, rest @ ..]) => (comparison(cmp)?, [&["u32", a, b], rest].concat()),
            _ => (arithmetic(name)?, modifiers.to_vec()),
        };
        let (types, finish) = match modifiers[..] {
            [d, a, b] => ([d, a, b], Finish::Wrap),
            [d, a, b, "sat"] => ([d, a, b], Finish::Saturate { signed: d == "s32" }),
            [d, a, b, "add"] => ([d, a, b], Finish::Accumulate),
            _ => return None,
        };
        let known = types.iter().all(|ty| matches!(*ty, "u32" | "s32"));
        let signed = [types[1] == "s32", types[2] == "s32"];
        known.then_some(Video { parts, bits, signed, finish })
    }

    /// The result of one lane.
    pub fn apply(&self, a: u32, b: u32, c: u32) -> u32 {
        let part = |word: u32, at: u32, signed: bool| {
            let top = word << (32 - self.bits - at);
            let down = 32 - self.bits;
            if signed { top as i32 >> down } else { (top >> down) as i32 }
        };
        let low = u32::MAX >> (32 - self.bits);
        let start = if self.finish == Finish::Accumulate { c } else { 0 };
        (0..32).step_by(self.bits as usize).fold(start, |result, at| {
            let value = (self.parts)(part(a, at, self.signed[0]), part(b, at, self.signed[1]));
            match self.finish {
                Finish::Wrap => result | (value as u32 & low) << at,
                Finish::Saturate { signed } => result | (self.clamp(value, signed) & low) << at,
                Finish::Accumulate => result.wrapping_add(value as u32),
            }
        })
    }

    fn clamp(&self, value: i32, signed: bool) -> u32 {
        let (least, most) = match signed {
            true => (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1),
            false => (0, (1 << self.bits) - 1),
        };
        value.clamp(least, most) as u32
    }
}

fn arithmetic(name: &str) -> Option<Parts> {
    Some(match name {
        "vadd" => |a, b| a + b,
        "vsub" => |a, b| a - b,
        // Halves are rounded away from zero.
        "vavrg" => |a, b| if a + b >= 0 { (a + b + 1) >> 1 } else { (a + b) >> 1 },
        "vabsdiff" => |a, b| (a - b).abs(),
        "vmin" => |a, b| a.min(b),
        "vmax" => |a, b| a.max(b),
        _ => return None,
    })
}

fn comparison(name: &str) -> Option<Parts> {
    Some(match name {
        "eq" => |a, b| i32::from(a == b),
        "ne" => |a, b| i32::from(a != b),
        "lt" => |a, b| i32::from(a < b),
        "le" => |a, b| i32::from(a <= b),
        "gt" => |a, b| i32::from(a > b),
        "ge" => |a, b| i32::from(a >= b),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::Video;

    fn run(instruction: &str, a: u32, b: u32, c: u32) -> u32 {
        let (opcode, modifiers) = instruction.split_once('.').expect("modifiers");
        let modifiers: Vec<&str> = modifiers.split('.').collect();
        Video::parse(opcode, &modifiers).expect(instruction).apply(a, b, c)
    }

    #[test]
    fn parts_do_not_touch_each_other() {
        let (a, b) = (0x01FF_8005, 0xFF01_0107);
        assert_eq!(run("vabsdiff4.u32.u32.u32", a, b, 99), 0xFEFE_7F02);
        assert_eq!(run("vabsdiff4.u32.u32.u32.add", a, b, 99), 0xFE + 0xFE + 0x7F + 2 + 99);
        assert_eq!(run("vabsdiff2.u32.u32.u32.add", a, b, 1), 0xFD02 + 0x7EFE + 1);
        assert_eq!(run("vadd4.u32.u32.u32", a, b, 0), 0x0000_810C);
        assert_eq!(run("vadd4.u32.u32.u32.sat", a, b, 0), 0xFFFF_810C);
        assert_eq!(run("vsub4.s32.s32.s32.sat", a, b, 0), 0x02FE_80FE);
        assert_eq!(run("vmax4.s32.s32.s32", a, b, 0), 0x0101_0107);
        assert_eq!(run("vmin2.u32.u32.u32", a, b, 0), 0x01FF_0107);
        assert_eq!(run("vavrg4.s32.s32.s32", a, b, 0), 0x0000_C006);
        assert_eq!(run("vset4.u32.u32.gt", a, b, 0), 0x0001_0100);
        assert_eq!(run("vset2.s32.s32.ge.add", a, b, 5), 6);
    }

    #[test]
    fn other_forms_are_refused() {
        for (opcode, modifiers) in [
            ("vadd4", &["u32", "u32"][..]),
            ("vadd4", &["u32", "u32", "f32"]),
            ("vmad2", &["u32", "u32", "u32"]),
            ("vset4", &["u32", "u32", "nan"]),
        ] {
            assert!(Video::parse(opcode, modifiers).is_none(), "{opcode} {modifiers:?}");
        }
    }
}
