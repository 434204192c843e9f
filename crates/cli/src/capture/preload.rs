//! Whether a library can be preloaded into a program.
//!
//! The loader does that, so a program needs one: it must be linked dynamically, for this machine. It ignores the demand
//! where a program runs with other rights than its user.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Interpreters of scripts that are followed.
const MOST_INTERPRETERS: usize = 4;
/// The part of a file that says what it is.
const HEAD: u64 = 4096;
const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
/// ELF's number of this machine.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
/// A segment that names the loader.
const INTERPRETER: u32 = 3;

/// Why nothing can be preloaded into a program, if that is so. What cannot be read is left to the system.
pub fn check(program: &OsStr) -> Result<(), String> {
    let mut next = Some(program.to_owned());
    for _ in 0..MOST_INTERPRETERS {
        let Some(path) = next.take().and_then(|name| find(&name)) else { return Ok(()) };
        let Some(head) = head(&path) else { return Ok(()) };
        if let Some(why) = rights(&path).or_else(|| elf(&head)) {
            return Err(format!("{}: nothing can be preloaded into it: {why}", path.display()));
        }
        next = interpreter(&head);
    }
    Ok(())
}

/// Where the shell would find a program.
fn find(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(name.into());
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn head(path: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    std::fs::File::open(path).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
    Some(head)
}

fn rights(path: &Path) -> Option<&'static str> {
    let file = std::fs::metadata(path).ok()?;
    let other_user = file.mode() & SETUID != 0 && file.uid() != files::user();
    (other_user || file.mode() & SETGID != 0).then_some(
        "it runs with the rights of another user or group (setuid): run a copy without them",
    )
}

/// What is wrong with an ELF file; nothing for other files.
fn elf(head: &[u8]) -> Option<&'static str> {
    if head.len() < 64 || !head.starts_with(b"\x7fELF") {
        return None;
    }
    if head[4] != 2 || half(head, 18) != usize::from(MACHINE) {
        return Some("it is for another machine");
    }
    let (start, size, count) = (word(head, 32), half(head, 54), half(head, 56));
    let kind = |number: usize| head.get(start + number * size..)?.first_chunk::<4>().copied();
    let mut kinds = (0..count).filter_map(kind).map(u32::from_le_bytes);
    (!kinds.any(|kind| kind == INTERPRETER))
        .then_some("it is linked statically: link it with shared libraries")
}

fn word(bytes: &[u8], at: usize) -> usize {
    half(bytes, at) | half(bytes, at + 2) << 16
}

fn half(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

/// The program that runs a script: behind `#!`, and behind `env` the one that it looks for.
fn interpreter(head: &[u8]) -> Option<OsString> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let first = words.next()?;
    let is_env = first.ends_with(b"/env");
    let looked_for = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    let name = if is_env { looked_for? } else { first };
    Some(OsStr::from_bytes(name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with one segment of a kind.
    fn program(machine: u16, kind: u32) -> Vec<u8> {
        let mut file = vec![0; 64 + 56];
        file[..5].copy_from_slice(b"\x7fELF\x02");
        file[18..20].copy_from_slice(&machine.to_le_bytes());
        (file[32], file[54], file[56]) = (64, 56, 1);
        file[64..68].copy_from_slice(&kind.to_le_bytes());
        file
    }

    #[test]
    fn programs_without_a_loader_are_refused() {
        assert_eq!(elf(&program(MACHINE, INTERPRETER)), None);
        assert!(elf(&program(MACHINE, 1)).is_some_and(|why| why.contains("statically")));
        assert!(elf(&program(3, INTERPRETER)).is_some_and(|why| why.contains("machine")));
        assert_eq!(elf(b"#!/bin/sh\n"), None);
    }

    #[test]
    fn scripts_are_followed_to_their_interpreters() {
        let named = |text: &str| interpreter(text.as_bytes());
        assert_eq!(named("#!/usr/bin/python3 -I\n"), Some("/usr/bin/python3".into()));
        assert_eq!(named("#! /usr/bin/env -S A=1 python3 -u\nimport"), Some("python3".into()));
        assert_eq!(named("import this"), None);
    }

    #[test]
    fn a_static_program_behind_a_script_is_refused() {
        let scratch = files::Scratch::new().unwrap();
        let (inner, script) = (scratch.file("inner"), scratch.file("script"));
        std::fs::write(&inner, program(MACHINE, 1)).unwrap();
        std::fs::write(&script, format!("#!{}\n", inner.display())).unwrap();
        let why = check(script.as_os_str()).unwrap_err();
        assert!(why.contains("inner: nothing can be preloaded"), "{why}");
        assert_eq!(check(OsStr::new("no-such-program-here")), Ok(()));
    }

    #[test]
    fn programs_with_other_rights_are_refused() {
        use std::os::unix::fs::PermissionsExt;
        let scratch = files::Scratch::new().unwrap();
        let path = scratch.file("program");
        std::fs::write(&path, program(MACHINE, INTERPRETER)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o2755)).unwrap();
        let why = check(path.as_os_str()).unwrap_err();
        assert!(why.contains("setuid"), "{why}");
    }
}
