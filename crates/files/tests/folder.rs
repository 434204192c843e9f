//! Files that a description from somewhere else may name.

use sixwarp_files::{Folder, Scratch};
use std::fs;

/// `captured/launch.json`, `captured/below/in.bin`, and a file beside the folder.
fn captured() -> (Scratch, Folder) {
    let scratch = Scratch::new().unwrap();
    fs::create_dir_all(scratch.file("captured/below")).unwrap();
    for name in ["secret", "captured/launch.json", "captured/below/in.bin"] {
        fs::write(scratch.file(name), name).unwrap();
    }
    let folder = Folder::of(&scratch.file("captured/launch.json")).unwrap();
    (scratch, folder)
}

#[test]
fn files_below_the_folder_are_found() {
    let (scratch, folder) = captured();
    for name in ["below/in.bin", "./below/in.bin", "below/./in.bin"] {
        let path = folder.existing(name).unwrap();
        assert_eq!(fs::read(path).unwrap(), b"captured/below/in.bin");
    }
    let whole = fs::canonicalize(scratch.file("captured")).unwrap();
    assert_eq!(folder.writable("out.bin").unwrap(), whole.join("out.bin"));
    assert_eq!(folder.writable("below/in.bin").unwrap(), whole.join("below/in.bin"));
}

#[test]
fn names_that_lead_out_are_refused() {
    let (scratch, folder) = captured();
    let absolute = scratch.file("secret");
    let back = scratch.file("captured/below/in.bin");
    let names = ["../secret", "below/../../secret", "..", absolute.to_str().unwrap()];
    for name in names.into_iter().chain([back.to_str().unwrap()]) {
        for result in [folder.existing(name), folder.writable(name)] {
            let error = result.unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name}: leads out of ")), "{error}");
        }
    }
    for name in ["", "missing", "below", "missing/out.bin"] {
        assert!(folder.existing(name).is_err(), "{name}");
    }
    for name in ["", ".", "below", "missing/out.bin"] {
        assert!(folder.writable(name).is_err(), "{name}");
    }
}

#[test]
fn hidden_files_are_not_written() {
    let (_scratch, folder) = captured();
    for name in [".bashrc", "./.profile", ".git/hooks/pre-commit", "below/.x"] {
        let error = folder.writable(name).unwrap_err().to_string();
        assert_eq!(error, format!("{name}: hidden files are not written"));
    }
}

#[test]
fn an_open_folder_reaches_everything() {
    let (scratch, folder) = captured();
    let folder = folder.open();
    assert_eq!(fs::read(folder.existing("../secret").unwrap()).unwrap(), b"secret");
    let absolute = scratch.file("out");
    assert_eq!(folder.writable(absolute.to_str().unwrap()).unwrap(), absolute);
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_must_stay_in_the_folder_too() {
        let (scratch, folder) = captured();
        let link = |to: &str, name: &str| symlink(to, scratch.file("captured").join(name)).unwrap();
        link("below/in.bin", "inside");
        link("../secret", "outside");
        link("..", "above");
        link("/nowhere/yet", "dangling");
        assert!(folder.existing("inside").is_ok());
        for name in ["outside", "above/secret", "dangling"] {
            assert!(folder.existing(name).is_err(), "{name}");
        }
        // What is written replaces a name in the folder: a link would be followed.
        for name in ["inside", "outside", "above/new", "dangling"] {
            assert!(folder.writable(name).is_err(), "{name}");
        }
    }

    #[test]
    fn what_never_ends_is_not_read() {
        let (scratch, folder) = captured();
        symlink("/dev/zero", scratch.file("captured/zero")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(scratch.file("captured/pipe")).status();
        assert!(made.unwrap().success());
        assert!(folder.existing("zero").is_err());
        for folder in [folder.clone(), folder.open()] {
            let error = folder.existing("pipe").unwrap_err().to_string();
            assert_eq!(error, "pipe: is not a regular file");
        }
        let open = Folder::of(&scratch.file("captured/launch.json")).unwrap().open();
        assert_eq!(open.existing("zero").unwrap_err().to_string(), "zero: is not a regular file");
    }
}
