//! The exact printer: every tree prints to text that parses to the same tree.

use crate::ast::*;
use std::fmt::{self, Display, Formatter, Write};

impl Display for Module {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, ".version {}.{}", self.version.0, self.version.1)?;
        f.write_str(".target ")?;
        list(f, &self.target)?;
        writeln!(f, "\n.address_size {}", self.address_size)?;
        for item in &self.items {
            writeln!(f)?;
            item.fmt(f)?;
        }
        Ok(())
    }
}

impl Display for Item {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Item::Function(function) => function.fmt(f),
            Item::Variable(variable) => writeln!(f, "{variable};"),
            Item::File(file) => file.fmt(f),
            Item::Section { name, lines } => {
                writeln!(f, ".section {name}\n{{")?;
                lines.iter().try_for_each(|line| writeln!(f, "{line}"))?;
                writeln!(f, "}}")
            }
            Item::Pragma(strings) => pragma(f, strings),
            Item::Alias(a, b) => writeln!(f, ".alias {a}, {b};"),
        }
    }
}

impl Display for File {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, ".file {} \"{}\"", self.index, self.path)?;
        if let Some((time, size)) = self.stamp {
            write!(f, ", {time}, {size}")?;
        }
        writeln!(f)
    }
}

impl Display for Linkage {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Linkage::Visible => ".visible",
            Linkage::Extern => ".extern",
            Linkage::Weak => ".weak",
            Linkage::Common => ".common",
        })
    }
}

impl Display for Space {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Space::Reg => ".reg",
            Space::Global => ".global",
            Space::Shared => ".shared",
            Space::Const => ".const",
            Space::Local => ".local",
            Space::Param => ".param",
        })
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(linkage) = self.linkage {
            write!(f, "{linkage} ")?;
        }
        f.write_str(if self.entry { ".entry" } else { ".func" })?;
        for attribute in self.directives.iter().filter(|d| d.name == "attribute") {
            write!(f, " .attribute({})", attribute.strings.join(", "))?;
        }
        if !self.returns.is_empty() {
            f.write_str(" (")?;
            list(f, &self.returns)?;
            f.write_char(')')?;
        }
        write!(f, " {}(", self.name)?;
        for (i, param) in self.params.iter().enumerate() {
            write!(f, "{}\n\t{param}", if i > 0 { "," } else { "" })?;
        }
        f.write_str(if self.params.is_empty() { ")" } else { "\n)" })?;
        for directive in self.directives.iter().filter(|d| d.name != "attribute") {
            write!(f, "\n{directive}")?;
        }
        match &self.body {
            None => f.write_str(";\n"),
            Some(body) => {
                f.write_str("\n{\n")?;
                statements(f, body, 1)?;
                f.write_str("}\n")
            }
        }
    }
}

impl Display for FunctionDirective {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, ".{}", self.name)?;
        for (i, value) in self.values.iter().enumerate() {
            write!(f, "{}{value}", if i > 0 { ", " } else { " " })?;
        }
        for (i, string) in self.strings.iter().enumerate() {
            write!(f, "{}\"{string}\"", if i > 0 { ", " } else { " " })?;
        }
        f.write_str(if self.strings.is_empty() { "" } else { ";" })
    }
}

impl Display for Variable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(linkage) = self.linkage {
            write!(f, "{linkage} ")?;
        }
        write!(f, "{}", self.space)?;
        if let Some(attribute) = self.attribute {
            write!(f, " .attribute({attribute})")?;
        }
        if let Some(align) = self.align {
            write!(f, " .align {align}")?;
        }
        if let Some(n) = self.vector {
            write!(f, " .v{n}")?;
        }
        write!(f, " .{}", self.ty)?;
        if let Some(pointer) = self.pointer {
            f.write_str(" .ptr")?;
            if let Some(space) = pointer.space {
                write!(f, " {space}")?;
            }
            if let Some(align) = pointer.align {
                write!(f, " .align {align}")?;
            }
        }
        write!(f, " {}", self.name)?;
        for extent in &self.extents {
            match extent {
                Some(n) => write!(f, "[{n}]")?,
                None => f.write_str("[]")?,
            }
        }
        match &self.init {
            Some(init) => write!(f, " = {init}"),
            None => Ok(()),
        }
    }
}

impl Display for Initializer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Initializer::Value(value) => value.fmt(f),
            Initializer::Generic(name, 0) => write!(f, "generic({name})"),
            Initializer::Generic(name, offset) => write!(f, "generic({name})+{offset}"),
            Initializer::Masked(mask, value) => write!(f, "{mask:#X}({value})"),
            Initializer::List(values) => {
                f.write_char('{')?;
                list(f, values)?;
                f.write_char('}')
            }
        }
    }
}

impl Display for Registers {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(".reg ")?;
        if let Some(n) = self.vector {
            write!(f, ".v{n} ")?;
        }
        write!(f, ".{} ", self.ty)?;
        for (i, (name, count)) in self.names.iter().enumerate() {
            f.write_str(if i > 0 { ", " } else { "" })?;
            f.write_str(name.as_str())?;
            if let Some(n) = count {
                write!(f, "<{n}>")?;
            }
        }
        f.write_char(';')
    }
}

impl Display for Loc {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, ".loc {} {} {}", self.file, self.line, self.column)?;
        let Some(inlined) = &self.inlined_at else { return Ok(()) };
        write!(f, ", function_name {}", inlined.function)?;
        if inlined.offset != 0 {
            write!(f, "+{}", inlined.offset)?;
        }
        let (file, line, column) = inlined.at;
        write!(f, ", inlined_at {file} {line} {column}")
    }
}

impl Display for Instruction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(guard) = self.guard {
            f.write_str(if guard.negated { "@!" } else { "@" })?;
            f.write_str(guard.register.as_str())?;
            f.write_char(' ')?;
        }
        f.write_str(self.opcode.as_str())?;
        for modifier in &self.modifiers {
            f.write_char('.')?;
            f.write_str(modifier.as_str())?;
        }
        if !self.operands.is_empty() {
            f.write_char(' ')?;
            list(f, &self.operands)?;
        }
        f.write_char(';')
    }
}

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Operand::Name(name) => f.write_str(name.as_str()),
            Operand::NameOffset(name, offset) => write!(f, "{name}+{offset}"),
            Operand::Not(name) => write!(f, "!{name}"),
            Operand::Integer { value, unsigned } => {
                write!(f, "{value}{}", if *unsigned { "U" } else { "" })
            }
            Operand::F32(bits) => write!(f, "0f{bits:08X}"),
            Operand::F64(bits) => write!(f, "0d{bits:016X}"),
            Operand::Sink => f.write_char('_'),
            Operand::Vector(elements) => {
                f.write_char('{')?;
                list(f, elements)?;
                f.write_char('}')
            }
            Operand::Address(address) => write!(f, "[{address}]"),
            Operand::TensorAddress(address, groups) => {
                write!(f, "[{address}")?;
                groups.iter().try_for_each(|group| write!(f, ", {group}"))?;
                f.write_char(']')
            }
            Operand::Pair(a, b) => write!(f, "{a}|{b}"),
            Operand::List(elements) => {
                f.write_char('(')?;
                list(f, elements)?;
                f.write_char(')')
            }
            Operand::Text(text) => write!(f, "\"{text}\""),
        }
    }
}

impl Display for Address {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.base {
            AddressBase::Name(name) => f.write_str(name.as_str())?,
            AddressBase::Absolute(address) => write!(f, "{address}")?,
        }
        match self.offset {
            0 => Ok(()),
            offset => write!(f, "+{offset}"),
        }
    }
}

fn pragma(f: &mut Formatter<'_>, strings: &[String]) -> fmt::Result {
    f.write_str(".pragma ")?;
    for (i, string) in strings.iter().enumerate() {
        write!(f, "{}\"{string}\"", if i > 0 { ", " } else { "" })?;
    }
    f.write_str(";\n")
}

fn list<T: Display>(f: &mut Formatter<'_>, elements: &[T]) -> fmt::Result {
    for (i, element) in elements.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        element.fmt(f)?;
    }
    Ok(())
}

fn statements(f: &mut Formatter<'_>, body: &[Statement], depth: usize) -> fmt::Result {
    for statement in body {
        let label = matches!(statement, Statement::Label(_));
        (0..depth - usize::from(label)).try_for_each(|_| f.write_char('\t'))?;
        match statement {
            Statement::Registers(registers) => writeln!(f, "{registers}")?,
            Statement::Variable(variable) => writeln!(f, "{variable};")?,
            Statement::Label(name) => writeln!(f, "{name}:")?,
            Statement::Instruction(instruction) => writeln!(f, "{instruction}")?,
            Statement::Loc(loc) => writeln!(f, "{loc}")?,
            Statement::Pragma(strings) => pragma(f, strings)?,
            Statement::Directive(text) => writeln!(f, "{text};")?,
            Statement::Block(inner) => {
                f.write_str("{\n")?;
                statements(f, inner, depth + 1)?;
                (0..depth).try_for_each(|_| f.write_char('\t'))?;
                f.write_str("}\n")?;
            }
        }
    }
    Ok(())
}
