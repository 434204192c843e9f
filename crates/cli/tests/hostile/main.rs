//! The program among files and programs that others made.
#![cfg(unix)]

mod driver;
mod launch;
mod messages;
mod tools;
mod writes;

use files::Scratch;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The program, with nothing in its environment that says where things are.
fn sixwarp(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sixwarp"));
    for name in ["CARGO_MANIFEST_DIR", "SIXWARP_CACHE", "XDG_CACHE_HOME", "PYTHONPATH"] {
        command.env_remove(name);
    }
    command.args(arguments);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// What a command says on failing.
fn failure(command: &mut Command) -> String {
    let Output { status, stderr, .. } = command.output().unwrap();
    assert_eq!(status.code(), Some(1), "{}", text(&stderr));
    text(&stderr)
}

fn success(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{}{}", text(&stdout), text(&stderr));
    text(&stdout)
}

/// A program that a shell runs.
fn script(path: &Path, lines: &str) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{lines}\n")).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    path.to_path_buf()
}

const STRANGER: u32 = 12345;

/// Makes it so that another user can have written to `path`, and says what is then told: the superuser
/// gives it away, and other users, who cannot, open it to all.
fn leave_to_others(path: &Path) -> &'static str {
    match files::user() {
        0 => {
            chown(path, Some(STRANGER), None).unwrap();
            "belongs to user 12345, and this is user 0"
        }
        _ => {
            fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
            "every user can replace what lies in it"
        }
    }
}

fn scratch() -> Scratch {
    Scratch::new().unwrap()
}
