//! The file that a command writes. It appears when it is whole, and takes the place of another file
//! only where that was asked for.

use super::CliError;
use serde::Serialize;
use std::fs::{File, Metadata, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::NamedTempFile;
use trace::units::Bytes;

/// Bytes collected before they are written.
const PIECE: usize = 1 << 20;

/// Rights of a new file, less what the user's umask takes away.
const NEW: u32 = 0o666;

/// A place to write to, which was looked at before any work is done.
#[derive(Debug)]
pub struct Target {
    path: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// The standard output, or a pipe or device, which cannot be replaced.
    Stream,
    /// Nothing was there.
    New,
    /// A file to replace, which a link may lead to.
    Old { file: PathBuf, mode: u32 },
}

/// What was written.
#[derive(Debug, Serialize)]
pub struct Written {
    /// The path, as it was given.
    pub file: String,
    /// How large it is; `null` for a pipe or a device.
    pub bytes: Option<Bytes>,
}

impl Target {
    /// Whether this is the standard output.
    pub fn is_stdout(&self) -> bool {
        self.path.as_os_str() == "-"
    }

    /// The place that was named; else a file of this name in the current folder, which must not be
    /// there: nobody chose to lose it. `-` is the standard output. `inputs` are what the command
    /// reads: a file, or a folder with files.
    ///
    /// # Errors
    /// [`CliError::Usage`]: a file would get lost that should not.
    pub fn find(named: Option<&Path>, default: &str, inputs: &[&Path]) -> Result<Target, CliError> {
        let path = named.map_or_else(|| PathBuf::from(default), Path::to_owned);
        let refuse = |why: &str| CliError::Usage(format!("{}: {why}", path.display()));
        if path.as_os_str() == "-" {
            let place = Place::Stream;
            return Ok(Target { path, place });
        }
        let Ok(found) = path.metadata() else {
            if !folder_of(&path).is_dir() {
                return Err(refuse(
                    "there is no such folder: --output needs one that is there",
                ));
            }
            let place = Place::New;
            return Ok(Target { path, place });
        };
        let place = if found.is_dir() {
            return Err(refuse("this is a folder: name a file in it with --output"));
        } else if !found.is_file() {
            Place::Stream
        } else if inputs.iter().any(|input| is_of(&path, &found, input)) {
            return Err(refuse(
                "this is what is read, and it would get lost: name another file with --output",
            ));
        } else if named.is_none() {
            return Err(refuse(
                "there is such a file already: name another one with --output, or this one to \
                 replace it",
            ));
        } else if found.permissions().readonly() {
            return Err(refuse(
                "this file is read-only: name another one with --output",
            ));
        } else {
            let file = path.canonicalize();
            let file = file.map_err(|error| refuse(&format!("cannot find it: {error}")))?;
            let mode = found.permissions().mode();
            Place::Old { file, mode }
        };
        Ok(Target { path, place })
    }

    /// Writes. What was there before stays until the new file is whole.
    ///
    /// # Errors
    /// When it cannot be written, or `write` fails.
    pub fn write<E: std::fmt::Display + From<io::Error>>(
        self,
        write: impl FnOnce(&mut Box<dyn Write + Send>) -> Result<(), E>,
    ) -> Result<Written, CliError> {
        let Target { path, place } = self;
        let shown = path.display();
        let cannot = |why: &dyn std::fmt::Display| match path.as_os_str() == "-" {
            true => CliError::Failed(why.to_string()),
            false => CliError::Failed(format!("cannot write {shown}: {why}")),
        };
        let filled = |out: Box<dyn Write + Send>| {
            let mut out = out;
            let written: Result<(), E> = write(&mut out).and_then(|()| Ok(out.flush()?));
            written.map_err(|error| cannot(&error))
        };
        let stream = Written {
            file: shown.to_string(),
            bytes: None,
        };
        let (file, mode) = match place {
            Place::Stream if path.as_os_str() == "-" => {
                let gone = Arc::new(AtomicBool::new(false));
                let out = StandardOutput(Arc::clone(&gone));
                let written = filled(Box::new(BufWriter::new(out)));
                // A reader that stops early (`… -o - | head`) is not an error.
                return match written {
                    Err(_) if gone.load(Ordering::Relaxed) => Ok(stream),
                    written => written.map(|()| stream),
                };
            }
            Place::Stream => {
                let out = File::options().write(true).open(&path);
                let out = out.map_err(|error| cannot(&error))?;
                return filled(Box::new(BufWriter::new(out))).map(|()| stream);
            }
            Place::New => (path.clone(), None),
            Place::Old { file, mode } => (file, Some(mode)),
        };
        let half = beside(&file, mode).map_err(|error| cannot(&error))?;
        let out = half.reopen().map_err(|error| cannot(&error))?;
        // If this fails, the half file is removed when it is dropped.
        filled(Box::new(BufWriter::with_capacity(PIECE, out)))?;
        let size = half.as_file().metadata();
        let bytes = size.map_err(|error| cannot(&error))?.len();
        let put = match mode {
            Some(_) => half.persist(&file),
            // A file that came meanwhile stays.
            None => half.persist_noclobber(&file),
        };
        put.map_err(|error| cannot(&error.error))?;
        Ok(Written {
            bytes: Some(Bytes(bytes)),
            ..stream
        })
    }
}

/// The standard output; remembers that nobody reads it any more.
struct StandardOutput(Arc<AtomicBool>);

impl StandardOutput {
    fn noted<T>(&self, done: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &done {
            let gone = error.kind() == io::ErrorKind::BrokenPipe;
            self.0.fetch_or(gone, Ordering::Relaxed);
        }
        done
    }
}

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.noted(io::stdout().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.noted(io::stdout().flush())
    }
}

/// An empty file in the same folder, so that it can be renamed. It has the rights of the file that
/// it will replace, if there is one.
fn beside(file: &Path, mode: Option<u32>) -> io::Result<NamedTempFile> {
    let mut half = tempfile::Builder::new();
    half.prefix(".tidemark-").suffix(".unfinished");
    let half = half.permissions(Permissions::from_mode(mode.unwrap_or(NEW)));
    let half = half.tempfile_in(folder_of(file))?;
    if let Some(mode) = mode {
        // The umask may have taken some away.
        half.as_file()
            .set_permissions(Permissions::from_mode(mode))?;
    }
    Ok(half)
}

fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Whether a file is this input, by whatever path, or lies in this input.
fn is_of(path: &Path, file: &Metadata, input: &Path) -> bool {
    let Ok(read) = input.metadata() else {
        return false;
    };
    match read.is_dir() {
        true => match (path.canonicalize(), input.canonicalize()) {
            (Ok(path), Ok(input)) => path.starts_with(input),
            _ => false,
        },
        false => (read.dev(), read.ino()) == (file.dev(), file.ino()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A folder with an input `in`, links to it, another file, and a data folder.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("data")).unwrap();
        for (name, text) in [("in", "input"), ("other", "old"), ("data/db", "rows")] {
            fs::write(at(name), text).unwrap();
        }
        fs::write(at("read_only"), "old").unwrap();
        fs::set_permissions(at("read_only"), Permissions::from_mode(0o444)).unwrap();
        symlink(at("in"), at("soft")).unwrap();
        symlink(at("other"), at("to_other")).unwrap();
        fs::hard_link(at("in"), at("hard")).unwrap();
        folder
    }

    #[test]
    fn a_file_gets_lost_only_where_that_was_asked_for() {
        let check = |named: Option<&str>, default: &str, expected: Result<&str, &str>| {
            let folder = folder();
            let at = |name: &str| folder.path().join(name);
            let named = named.map(at);
            let default = at(default).display().to_string();
            let inputs = [at("in"), at("data")];
            let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
            let found = Target::find(named.as_deref(), &default, &inputs);
            let written = found
                .and_then(|target| target.write(|out| -> io::Result<()> { out.write_all(b"new") }));
            match expected {
                Ok(file) => {
                    written.unwrap();
                    assert_eq!(fs::read_to_string(at(file)).unwrap(), "new");
                }
                Err(says) => {
                    let refused = written.unwrap_err();
                    assert_eq!(refused.exit_code(), 2);
                    let why = refused.to_string();
                    assert!(why.contains(says) && why.contains("--output"), "{why}");
                    assert_eq!(fs::read_to_string(at("other")).unwrap(), "old");
                }
            }
            assert_eq!(fs::read_to_string(at("in")).unwrap(), "input");
            assert_eq!(fs::read_to_string(at("data/db")).unwrap(), "rows");
        };
        let (lost, there) = ("what is read", "already");
        check(None, "new", Ok("new"));
        check(None, "other", Err(there));
        check(None, "in", Err(lost));
        check(Some("new"), "x", Ok("new"));
        check(Some("other"), "x", Ok("other"));
        // A link stays a link.
        check(Some("to_other"), "x", Ok("other"));
        check(Some("data/new"), "x", Ok("data/new"));
        for input in ["in", "./in", "data/../in", "soft", "hard", "data/db"] {
            check(Some(input), "x", Err(lost));
        }
        check(Some("data"), "x", Err("this is a folder"));
        check(Some("nowhere/new"), "x", Err("no such folder"));
        check(Some("read_only"), "x", Err("read-only"));
    }

    #[test]
    fn what_was_there_stays_when_writing_fails_and_its_rights_stay_when_it_does_not() {
        let folder = folder();
        let file = folder.path().join("other");
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        let target = || Target::find(Some(&file), "x", &[]).unwrap();
        let failed = target().write(|out| -> io::Result<()> {
            out.write_all(b"half")?;
            Err(io::Error::other("the disk is full"))
        });
        let why = failed.unwrap_err().to_string();
        assert!(why.ends_with("other: the disk is full"), "{why}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        target()
            .write(|out| -> io::Result<()> { out.write_all(b"new") })
            .unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o640);
        let left = fs::read_dir(folder.path()).unwrap().flatten();
        let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with('.'));
        assert_eq!(left.count(), 0);
    }
}
