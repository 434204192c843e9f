//! Directories whose files are only used if nobody else can have put them there.
#![cfg(unix)]

use sixwarp_files::{PrivateDirectory, Scratch, Trust, user};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

const STRANGER: u32 = 12345;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Makes it so that another user can have written to `path`, and says what is then told: the superuser
/// gives it away, and other users, who cannot, open it to all.
fn leave_to_others(path: &Path) -> String {
    match user() {
        0 => {
            chown(path, Some(STRANGER), None).unwrap();
            format!("{}: belongs to user {STRANGER}, and this is user 0", path.display())
        }
        _ => {
            set_mode(path, 0o777);
            format!("{}: other users can write to it (mode 0777)", path.display())
        }
    }
}

fn said(result: Result<impl Sized, sixwarp_files::Error>) -> String {
    result.err().expect("refused").to_string()
}

#[test]
fn directories_are_made_for_this_user_alone() {
    let scratch = Scratch::new().unwrap();
    let root = PrivateDirectory::new(scratch.file("above/cache"), Trust::User);
    let below = root.below("tools").below("1.0");
    assert_eq!(below.file("tool"), Ok(None));
    let path = below.make().unwrap();
    assert_eq!(path, scratch.file("above/cache/tools/1.0"));
    for made in [&path, path.parent().unwrap(), &scratch.file("above/cache")] {
        let metadata = fs::metadata(made).unwrap();
        assert_eq!((metadata.mode() & 0o777, metadata.uid()), (0o700, user()), "{made:?}");
    }
    fs::write(path.join("tool"), "x").unwrap();
    assert_eq!(below.make(), Ok(path.clone()));
    assert_eq!(below.file("tool"), Ok(Some(path.join("tool"))));
}

#[test]
fn what_others_can_have_written_is_refused_wherever_it_lies() {
    for spoilt in ["cache", "cache/tools", "cache/tools/tool"] {
        let scratch = Scratch::new().unwrap();
        let tools = PrivateDirectory::new(scratch.file("cache"), Trust::User).below("tools");
        fs::write(tools.make().unwrap().join("tool"), "x").unwrap();
        let expected = leave_to_others(&scratch.file(spoilt));
        let said = said(tools.file("tool"));
        // A directory that is open to all is also one in which all can be replaced.
        let open =
            said.contains("sticky") && said.starts_with(scratch.file(spoilt).to_str().unwrap());
        assert!(said.starts_with(&expected) || open, "{said}");
        assert_eq!(tools.make().is_ok(), spoilt == "cache/tools/tool", "{spoilt}");
    }
}

#[test]
fn modes_decide_who_can_write() {
    let scratch = Scratch::new().unwrap();
    let tools = PrivateDirectory::new(scratch.file("cache"), Trust::User);
    let tool = tools.make().unwrap().join("tool");
    fs::write(&tool, "x").unwrap();
    // A group of the user's own number is the user's own.
    let own_group = fs::metadata(&tool).unwrap().gid() == user();
    for (mode, used) in [
        (0o755, true),
        (0o600, true),
        (0o775, own_group),
        (0o757, false),
        (0o602, false),
        (0o777, false),
    ] {
        set_mode(&tool, mode);
        assert_eq!(tools.file("tool").is_ok(), used, "{mode:o}");
    }
}

#[test]
fn places_where_everybody_can_replace_things_are_refused() {
    let scratch = Scratch::new().unwrap();
    let open = scratch.file("open");
    fs::create_dir(&open).unwrap();
    let cache = PrivateDirectory::new(open.join("below/cache"), Trust::User);
    set_mode(&open, 0o777);
    let said = said(cache.make());
    assert!(said.starts_with(&format!("{}: every user can replace", open.display())), "{said}");
    set_mode(&open, 0o1777);
    cache.make().unwrap();
}

#[test]
fn the_superuser_uses_no_place_of_another_user() {
    let scratch = Scratch::new().unwrap();
    let home = scratch.file("home");
    let cache = PrivateDirectory::new(home.join("cache"), Trust::User);
    let tool = cache.make().unwrap().join("tool");
    fs::write(&tool, "x").unwrap();
    assert_eq!(cache.file("tool"), Ok(Some(tool)));
    // Its owner could put another directory there between a look and a use.
    if user() == 0 {
        let expected = leave_to_others(&home);
        assert!(said(cache.file("tool")).starts_with(&expected));
        assert!(said(cache.make()).starts_with(&expected));
    }
}

#[test]
fn links_are_judged_by_what_they_lead_to() {
    let scratch = Scratch::new().unwrap();
    let far = PrivateDirectory::new(scratch.file("far"), Trust::User).make().unwrap();
    fs::write(far.join("tool"), "x").unwrap();
    symlink(&far, scratch.file("near")).unwrap();
    let near = PrivateDirectory::new(scratch.file("near"), Trust::User);
    assert_eq!(near.file("tool"), Ok(Some(scratch.file("near/tool"))));
    leave_to_others(&far);
    assert!(near.file("tool").is_err() && near.make().is_err());
}

#[test]
fn only_regular_files_are_used() {
    let scratch = Scratch::new().unwrap();
    let tools = PrivateDirectory::new(scratch.file("cache"), Trust::User);
    let place = tools.make().unwrap();
    fs::create_dir(place.join("directory")).unwrap();
    symlink("/dev/zero", place.join("device")).unwrap();
    symlink("/bin/sh", place.join("link")).unwrap();
    for name in ["directory", "device", "link"] {
        let said = said(tools.file(name));
        assert!(said.ends_with("is not a regular file: it is not used"), "{said}");
    }
    fs::write(scratch.file("file"), "x").unwrap();
    assert!(PrivateDirectory::new(scratch.file("file"), Trust::User).make().is_err());
}

#[test]
fn under_cargo_the_workspaces_owner_is_trusted_and_nobody_else() {
    let scratch = Scratch::new().unwrap();
    let target = scratch.file("workspace/target");
    fs::create_dir_all(&target).unwrap();
    // As a checkout that was made without a umask: cargo runs what lies there.
    set_mode(&target, 0o777);
    let cache = |owner| PrivateDirectory::new(&target, Trust::Workspace(owner)).below("tools");
    let tool = cache(user()).make().unwrap().join("tool");
    fs::write(&tool, "x").unwrap();
    assert_eq!(cache(STRANGER).file("tool"), Ok(Some(tool.clone())));
    assert_eq!(Trust::workspace(&target), Trust::Workspace(user()));
    leave_to_others(&tool);
    assert!(cache(user()).file("tool").is_err());
    assert_eq!(cache(STRANGER).file("tool").is_ok(), user() == 0);
}
