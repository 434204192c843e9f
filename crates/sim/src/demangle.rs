//! C++ names as people write them.
//!
//! A kernel of CUTLASS has a name of thousands of characters, most of them template arguments. What a
//! reader looks for is the path: `cutlass::device_kernel<...>`. So arguments are skipped, not printed,
//! and nothing but their extent is read. A name that needs more than that stays as it is.

use std::borrow::Cow;

/// The path of a name mangled by the Itanium ABI, `<...>` for template arguments; else the name.
pub fn readable(name: &str) -> Cow<'_, str> {
    let encoding = name.strip_prefix("_Z").map(str::as_bytes);
    let path = encoding.and_then(|rest| Mangled { rest, depth: 0 }.name());
    let path = path.filter(|path| !path.contains(UNKNOWN));
    path.map_or(Cow::Borrowed(name), Cow::Owned)
}

/// What is left to read.
struct Mangled<'n> {
    rest: &'n [u8],
    depth: u32,
}

/// Stands in a path for what another place of the name says.
const UNKNOWN: char = '\0';
/// Types in types that are followed.
const DEEPEST: u32 = 256;

/// Types of one letter.
const BUILTIN: &[u8] = b"vwbcahstijlmxynofdegz";
/// The second letter of types that begin with `D`.
const BUILTIN_D: &[u8] = b"defhisuacnwx";
/// Operators worth a name of their own.
const OPERATORS: [(&[u8], &str); 3] =
    [(b"cl", "operator()"), (b"ix", "operator[]"), (b"aS", "operator=")];

impl Mangled<'_> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn skip(&mut self, prefix: &[u8]) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn digits(&mut self) -> Option<usize> {
        let count = self.rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }

    /// A name and, of functions, the types of its parameters.
    fn encoding(&mut self) -> Option<String> {
        let name = self.name()?;
        while self.peek().is_some_and(|b| b != b'E' && b != b'.' && b != b'_' && b != b'$') {
            self.skip_type()?;
        }
        Some(name)
    }

    fn name(&mut self) -> Option<String> {
        match self.peek()? {
            b'N' => self.nested_name(),
            b'Z' => self.local_name(),
            _ => {
                let mut path = String::new();
                if self.skip(b"St") {
                    path += "std::";
                }
                self.component(&mut path, "")?;
                self.arguments(&mut path)?;
                Some(path)
            }
        }
    }

    fn nested_name(&mut self) -> Option<String> {
        self.skip(b"N");
        while self.peek().is_some_and(|b| b"rVKRO".contains(&b)) {
            self.next();
        }
        let mut path = String::new();
        let mut last = String::new();
        if self.skip(b"St") {
            path += "std";
        } else if matches!(self.peek()?, b'S' | b'T') {
            self.skip_reference()?;
            path.push(UNKNOWN);
        }
        while !self.skip(b"E") {
            if self.peek() == Some(b'I') {
                self.arguments(&mut path)?;
                continue;
            }
            if !path.is_empty() {
                path += "::";
            }
            let start = path.len();
            self.component(&mut path, &last)?;
            last = path[start..].to_owned();
        }
        Some(path)
    }

    /// Something in a function: `Z encoding E name`.
    fn local_name(&mut self) -> Option<String> {
        self.skip(b"Z");
        let function = self.encoding()?;
        if !self.skip(b"E") {
            return None;
        }
        if self.skip(b"s") {
            return Some(format!("{function}::string literal"));
        }
        let name = self.name()?;
        if self.skip(b"_") && !self.skip(b"_") {
            self.digits();
        }
        Some(format!("{function}::{name}"))
    }

    /// One part of a path; constructors have the name of the part before.
    fn component(&mut self, path: &mut String, class: &str) -> Option<()> {
        self.skip(b"L");
        match self.peek()? {
            b'0'..=b'9' => *path += &self.source_name()?,
            b'C' if !class.is_empty() => {
                self.next();
                self.next();
                *path += class;
            }
            b'D' if matches!(self.rest.get(1)?, b'0'..=b'5') => {
                self.rest = &self.rest[2..];
                *path += &format!("~{class}");
            }
            b'U' => *path += self.unnamed()?,
            b'a'..=b'z' => {
                let operator = self.rest.get(..2)?;
                let known = OPERATORS.iter().find(|(code, _)| *code == operator);
                self.rest = &self.rest[2..];
                *path += known.map_or("operator", |(_, name)| name);
            }
            _ => return None,
        }
        while self.skip(b"B") {
            self.source_name()?;
        }
        Some(())
    }

    fn source_name(&mut self) -> Option<String> {
        let length = self.digits()?;
        let name = std::str::from_utf8(self.rest.get(..length)?).ok()?;
        self.rest = &self.rest[length..];
        // nvcc and clang name the unnamed namespace of a file like that.
        let anonymous = name.starts_with("_GLOBAL__N_") || name.starts_with("_INTERNAL_");
        Some(if anonymous { "(anonymous namespace)".to_owned() } else { name.to_owned() })
    }

    /// A lambda or a type without a name.
    fn unnamed(&mut self) -> Option<&'static str> {
        let lambda = self.skip(b"Ul");
        if !lambda && !self.skip(b"Ut") {
            return None;
        }
        while lambda && !self.skip(b"E") {
            self.skip_type()?;
        }
        let _number = self.digits();
        self.skip(b"_").then_some(if lambda { "{lambda}" } else { "{unnamed}" })
    }

    /// Template arguments, if there are any, as `<...>`.
    fn arguments(&mut self, path: &mut String) -> Option<()> {
        if self.peek() == Some(b'I') {
            self.skip_arguments()?;
            *path += "<...>";
        }
        Some(())
    }

    fn skip_arguments(&mut self) -> Option<()> {
        self.next();
        while !self.skip(b"E") {
            match self.peek()? {
                b'J' => self.skip_arguments()?,
                b'L' => self.skip_literal()?,
                _ => self.skip_type()?,
            }
        }
        Some(())
    }

    fn skip_literal(&mut self) -> Option<()> {
        self.skip(b"L");
        if self.skip(b"_Z") {
            self.encoding()?;
        } else {
            self.skip_type()?;
        }
        while self.next()? != b'E' {}
        Some(())
    }

    fn skip_type(&mut self) -> Option<()> {
        self.depth += 1;
        let done = if self.depth > DEEPEST { None } else { self.skip_type_inside() };
        self.depth -= 1;
        done
    }

    fn skip_type_inside(&mut self) -> Option<()> {
        match self.peek()? {
            b'P' | b'R' | b'O' | b'K' | b'V' | b'r' | b'C' | b'G' => {
                self.next();
                self.skip_type()
            }
            b'U' if !matches!(self.rest.get(1)?, b'l' | b't') => {
                self.next();
                self.source_name()?;
                self.arguments(&mut String::new())?;
                self.skip_type()
            }
            b'u' => {
                self.next();
                self.source_name()?;
                self.arguments(&mut String::new())
            }
            b'D' => self.skip_d_type(),
            b'F' => self.skip_function(),
            b'A' => {
                self.next();
                let _length = self.digits();
                self.skip(b"_").then_some(())?;
                self.skip_type()
            }
            b'M' => {
                self.next();
                self.skip_type()?;
                self.skip_type()
            }
            b'T' | b'S' => self.skip_reference(),
            b'N' | b'Z' | b'0'..=b'9' => self.name().map(|_| ()),
            builtin if BUILTIN.contains(&builtin) => self.next().map(|_| ()),
            _ => None,
        }
    }

    fn skip_d_type(&mut self) -> Option<()> {
        let second = *self.rest.get(1)?;
        self.rest = &self.rest[2..];
        match second {
            b'p' => self.skip_type(),
            b'o' => self.skip_function(),
            // `_Float16`, `std::bfloat16_t` and their like.
            b'F' => {
                self.digits()?;
                (self.skip(b"_") || self.skip(b"b") || self.skip(b"x")).then_some(())
            }
            b'v' => {
                self.digits()?;
                self.skip(b"_").then_some(())?;
                self.skip_type()
            }
            builtin => BUILTIN_D.contains(&builtin).then_some(()),
        }
    }

    fn skip_function(&mut self) -> Option<()> {
        self.skip(b"F");
        self.skip(b"Y");
        while !self.skip(b"E") {
            if self.rest.starts_with(b"RE") || self.rest.starts_with(b"OE") {
                self.next();
                continue;
            }
            self.skip_type()?;
        }
        Some(())
    }

    /// `T_`, `S3_`, `St6vector`: something that stands for what came before, or for `std`.
    fn skip_reference(&mut self) -> Option<()> {
        if self.skip(b"St") {
            self.component(&mut String::new(), "")?;
            return self.arguments(&mut String::new());
        }
        self.next();
        match self.peek()? {
            b'a' | b's' | b'b' | b'i' | b'o' | b'd' => self.next().map(|_| ())?,
            _ => {
                let number = self.rest.iter().position(|b| *b == b'_')?;
                let plain = |b: &u8| b.is_ascii_digit() || b.is_ascii_uppercase();
                self.rest[..number].iter().all(plain).then_some(())?;
                self.rest = &self.rest[number + 1..];
            }
        }
        self.arguments(&mut String::new())
    }
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn paths_of_functions_and_variables() {
        for (mangled, path) in [
            ("plain_name", "plain_name"),
            ("_Z6kernelPfi", "kernel"),
            ("_ZN3foo3barEPKfRKSt6vectorIiSaIiEE", "foo::bar"),
            ("_ZZ6kernelPfE3bar", "kernel::bar"),
            ("_ZZN3foo6kernelILi3EEEvPT_E4smem_0", "foo::kernel<...>::smem"),
            (
                "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEENS_10bfloat16_tELb1EEEEEvNT_6ParamsE",
                "cutlass::device_kernel<...>",
            ),
            ("_ZN12_GLOBAL__N_16kernelEv", "(anonymous namespace)::kernel"),
            ("_ZN1AC2Ev", "A::A"),
            ("_ZN1AD1Ev", "A::~A"),
            ("_ZNK1AclEi", "A::operator()"),
            ("_ZZ4mainENKUlfE_clEf", "main::{lambda}::operator()"),
            ("_ZL6kernelv", "kernel"),
            ("_Z1fDF16_Dv4_fM1AFivE", "f"),
        ] {
            assert_eq!(readable(mangled), path);
        }
    }

    #[test]
    fn what_is_not_understood_stays() {
        for name in ["_Z", "_ZN", "_ZN3fo", "_Z99x", "_ZNS0_3barE", "_Z1fIXsr3fooEEvv", "_ZZ1fE"] {
            assert_eq!(readable(name), name);
        }
        let deep = format!("_Z1fI{}iE", "P".repeat(100_000));
        assert_eq!(readable(&deep), deep);
    }
}
