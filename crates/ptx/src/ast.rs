//! The tree that PTX text is parsed to and printed from.

use crate::Symbol;
use std::fmt;

/// A whole PTX file.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// `.version`, for instance `(8, 7)`.
    pub version: (u32, u32),
    /// `.target` names, the architecture first (`sm_90a`).
    pub target: Vec<Symbol>,
    /// `.address_size`.
    pub address_size: u32,
    /// Everything after the header, in source order.
    pub items: Vec<Item>,
}

/// A top-level item.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// A kernel or device function.
    Function(Function),
    /// A module-scope variable.
    Variable(Variable),
    /// `.file index "path"{, timestamp, size}`.
    File(File),
    /// A debug `.section` with its lines, kept as text.
    Section {
        /// Section name with its leading dot.
        name: Symbol,
        /// Lines between the braces.
        lines: Vec<String>,
    },
    /// `.pragma` at module scope.
    Pragma(Vec<String>),
    /// `.alias a, b;`
    Alias(Symbol, Symbol),
}

/// A `.file` directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Number that `.loc` refers to.
    pub index: u32,
    /// Path.
    pub path: String,
    /// Optional timestamp and size.
    pub stamp: Option<(u64, u64)>,
}

/// `.visible`, `.extern`, `.weak`, `.common`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// Visible to other modules.
    Visible,
    /// Defined elsewhere.
    Extern,
    /// Weak.
    Weak,
    /// Common.
    Common,
}

/// A kernel (`.entry`) or device function (`.func`).
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Linkage.
    pub linkage: Option<Linkage>,
    /// Whether this is a kernel.
    pub entry: bool,
    /// Return parameters of a `.func`.
    pub returns: Vec<Variable>,
    /// Name.
    pub name: Symbol,
    /// Parameters.
    pub params: Vec<Variable>,
    /// Performance and launch directives, in source order.
    pub directives: Vec<FunctionDirective>,
    /// The body, `None` for a declaration.
    pub body: Option<Vec<Statement>>,
}

/// A directive between a function's parameters and its body, such as `.maxntid 384, 1, 1`.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionDirective {
    /// Name without the dot.
    pub name: Symbol,
    /// Numbers.
    pub values: Vec<u64>,
    /// Strings of a `.pragma`; what stands in the parentheses of an `.attribute`.
    pub strings: Vec<String>,
}

/// A state space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Registers.
    Reg,
    /// Global memory.
    Global,
    /// Shared memory of a CTA.
    Shared,
    /// Constant memory.
    Const,
    /// Per-thread memory.
    Local,
    /// Parameters.
    Param,
}

/// A variable or parameter declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Linkage.
    pub linkage: Option<Linkage>,
    /// State space.
    pub space: Space,
    /// `.align`.
    pub align: Option<u32>,
    /// `.attribute(…)`: the text between the parentheses (`.managed`).
    pub attribute: Option<Symbol>,
    /// `.ptr{.space}{.align n}` of a kernel parameter.
    pub pointer: Option<PointerAttribute>,
    /// `.v2`, `.v4`, `.v8`.
    pub vector: Option<u8>,
    /// Element type.
    pub ty: Type,
    /// Name.
    pub name: Symbol,
    /// Array extents; `None` is the open extent `[]`.
    pub extents: Vec<Option<u64>>,
    /// Initial value.
    pub init: Option<Initializer>,
}

/// `.ptr` information of a kernel parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerAttribute {
    /// Space the pointer points into.
    pub space: Option<Space>,
    /// Alignment of the memory pointed to.
    pub align: Option<u32>,
}

/// An initial value.
#[derive(Clone, Debug, PartialEq)]
pub enum Initializer {
    /// A number or a name with offset.
    Value(Operand),
    /// `generic(name)`, possibly with an offset.
    Generic(Symbol, i64),
    /// `mask(name)` of a byte-wise address initialiser.
    Masked(u64, Box<Initializer>),
    /// `{ … }`.
    List(Vec<Initializer>),
}

macro_rules! types {
    ($($(#[$doc:meta])* $variant:ident $text:literal $bits:literal),* $(,)?) => {
        /// A fundamental type.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Type { $(#[doc = concat!("`.", $text, "`.")] $variant),* }

        impl Type {
            /// Name without the dot.
            pub const fn name(self) -> &'static str {
                match self { $(Type::$variant => $text),* }
            }
            /// The type called `name`.
            pub fn from_name(name: &str) -> Option<Type> {
                match name { $($text => Some(Type::$variant),)* _ => None }
            }
            /// Width in bits (1 for predicates).
            pub const fn bits(self) -> u32 {
                match self { $(Type::$variant => $bits),* }
            }
        }
    };
}

types! {
    Pred "pred" 1,
    B8 "b8" 8, B16 "b16" 16, B32 "b32" 32, B64 "b64" 64, B128 "b128" 128,
    U8 "u8" 8, U16 "u16" 16, U32 "u32" 32, U64 "u64" 64,
    S8 "s8" 8, S16 "s16" 16, S32 "s32" 32, S64 "s64" 64,
    F16 "f16" 16, F16x2 "f16x2" 32, Bf16 "bf16" 16, Bf16x2 "bf16x2" 32,
    F32 "f32" 32, F64 "f64" 64, F32x2 "f32x2" 64,
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A statement of a function body.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `.reg` declaration.
    Registers(Registers),
    /// A variable of the enclosing scope.
    Variable(Variable),
    /// `name:`
    Label(Symbol),
    /// An instruction.
    Instruction(Instruction),
    /// `{ … }`: registers and labels declared inside are local to it.
    Block(Vec<Statement>),
    /// `.loc`.
    Loc(Loc),
    /// `.pragma "…", …;`
    Pragma(Vec<String>),
    /// A directive that names code: `.branchtargets`, `.calltargets`, `.callprototype`, kept as text.
    Directive(String),
}

/// `.reg .b32 %a, %r<8>;`
#[derive(Clone, Debug, PartialEq)]
pub struct Registers {
    /// `.v2` or `.v4`.
    pub vector: Option<u8>,
    /// Type.
    pub ty: Type,
    /// Names; a count `n` declares `name0 … name(n-1)`.
    pub names: Vec<(Symbol, Option<u32>)>,
}

/// `.loc file line column`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loc {
    /// File number.
    pub file: u32,
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
    /// `, function_name label {+ offset}, inlined_at file line column`.
    pub inlined_at: Option<InlinedAt>,
}

/// The inlining part of a `.loc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InlinedAt {
    /// Label of the function's name in a debug section.
    pub function: Symbol,
    /// Offset behind the label.
    pub offset: i64,
    /// File, line and column of the call.
    pub at: (u32, u32, u32),
}

/// A line of PTX text an instruction was read from; ignored when comparing trees. 0 is unknown.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub struct Line(pub u32);

impl PartialEq for Line {
    fn eq(&self, _: &Line) -> bool {
        true
    }
}

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// `@%p` or `@!%p`.
    pub guard: Option<Guard>,
    /// The part before the first dot (`wgmma`).
    pub opcode: Symbol,
    /// The dotted parts in source order, without their dots (`mbarrier::complete_tx::bytes`).
    pub modifiers: Vec<Symbol>,
    /// Operands in source order, destinations first.
    pub operands: Vec<Operand>,
    /// Where it was read.
    pub line: Line,
}

impl Instruction {
    /// Whether a modifier of this name is present, at any place.
    pub fn has(&self, modifier: &str) -> bool {
        self.modifiers.iter().any(|m| *m == modifier)
    }
}

/// A guard predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Predicate register.
    pub register: Symbol,
    /// `@!`.
    pub negated: bool,
}

/// An operand.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A register, special register (`%tid.x`), label, function or variable.
    Name(Symbol),
    /// `name+offset` outside brackets.
    NameOffset(Symbol, i64),
    /// `!%p`.
    Not(Symbol),
    /// An integer; the bits of a 64-bit pattern and whether it was written with a `U` suffix.
    Integer {
        /// Value, sign included.
        value: i128,
        /// `U` suffix.
        unsigned: bool,
    },
    /// `0f…`: bits of an f32.
    F32(u32),
    /// `0d…` or a decimal fraction: bits of an f64.
    F64(u64),
    /// `_`.
    Sink,
    /// `{a, b, …}`.
    Vector(Vec<Operand>),
    /// `[base+offset]`.
    Address(Address),
    /// `[base, {c0, c1, …}]` of a tensor map, with optional further groups (im2col offsets).
    TensorAddress(Address, Vec<Operand>),
    /// `a|b`.
    Pair(Box<Operand>, Box<Operand>),
    /// `(a, b)` of a call.
    List(Vec<Operand>),
    /// A string (`.pragma`-like operands).
    Text(String),
}

impl Operand {
    /// An integer operand.
    pub fn int(value: impl Into<i128>) -> Self {
        Operand::Integer { value: value.into(), unsigned: false }
    }

    /// An f32 operand.
    pub fn f32(value: f32) -> Self {
        Operand::F32(value.to_bits())
    }
}

/// A memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Register, variable or absolute address.
    pub base: AddressBase,
    /// Byte offset.
    pub offset: i64,
}

/// What an address starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressBase {
    /// A register or variable.
    Name(Symbol),
    /// A number.
    Absolute(u64),
}

impl Module {
    /// The functions, in source order.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.items.iter().filter_map(|item| match item {
            Item::Function(function) => Some(function),
            _ => None,
        })
    }

    /// The kernel called `name`.
    pub fn entry(&self, name: &str) -> Option<&Function> {
        self.functions().find(|f| f.entry && f.body.is_some() && f.name == *name)
    }
}
