use std::collections::HashMap;
use std::fmt;
use std::sync::{LazyLock, RwLock};

/// An interned name: a register, label, variable, opcode or modifier.
///
/// Equal text gives equal symbols for the life of the process; comparing and copying cost nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Symbol(u32);

#[derive(Default)]
struct Interner {
    ids: HashMap<&'static str, u32>,
    names: Vec<&'static str>,
}

static INTERNER: LazyLock<RwLock<Interner>> = LazyLock::new(RwLock::default);

impl Symbol {
    /// The symbol of `name`.
    pub fn new(name: &str) -> Self {
        if let Some(&id) = INTERNER.read().expect("interner").ids.get(name) {
            return Symbol(id);
        }
        let mut interner = INTERNER.write().expect("interner");
        if let Some(&id) = interner.ids.get(name) {
            return Symbol(id);
        }
        // Names live as long as the process: a program has few distinct ones.
        let name: &'static str = Box::leak(name.into());
        let id = u32::try_from(interner.names.len()).expect("fewer than 2^32 names");
        interner.names.push(name);
        interner.ids.insert(name, id);
        Symbol(id)
    }

    /// The name.
    pub fn as_str(self) -> &'static str {
        INTERNER.read().expect("interner").names[self.0 as usize]
    }

    /// A dense number, for tables indexed by symbol.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.as_str())
    }
}

impl From<&str> for Symbol {
    fn from(name: &str) -> Self {
        Symbol::new(name)
    }
}

impl PartialEq<str> for Symbol {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Symbol {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}
