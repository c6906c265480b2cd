//! Writes the files of an archive into a folder, and keeps account of what could not be: one bad
//! file does not lose the good ones.

use crate::config::Config;
use crate::ingest::decompress::Decompressor;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};
use trace::units::Bytes;

/// How many of the files that are left out are named.
const NAMED: usize = 8;
/// The longest name that is told as it is; characters.
const LONGEST_TOLD: usize = 120;

/// What may come out of an archive.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Files.
    pub files: usize,
    /// Bytes of a file: as many as a server takes, if nothing else is said to it.
    pub file: u64,
    /// Bytes of all of them: as many as of an upload that is packed.
    pub all: u64,
}

impl Limits {
    /// Those of an archive of so many packed bytes.
    pub fn of(files: usize, packed: u64) -> Limits {
        let unpacked = Decompressor::ALWAYS.0 + packed.saturating_mul(Decompressor::RATIO);
        Limits {
            files,
            file: Config::UPLOAD_LIMIT.0,
            all: unpacked.min(Decompressor::DEFAULT_LIMIT.0).max(packed),
        }
    }

    /// Counts a file.
    fn count(&mut self) -> io::Result<()> {
        let left = self.files.checked_sub(1);
        self.files = left.ok_or_else(|| io::Error::other("it holds too many files"))?;
        Ok(())
    }
}

/// A limit was passed.
pub fn too_much(what: &str, limit: u64) -> io::Error {
    io::Error::other(format!(
        "{what} more than {}; if you trust it, unpack it yourself, and name the folder instead",
        Bytes(limit)
    ))
}

/// Some texts, of which the first are kept.
#[derive(Debug, Default)]
struct Counted {
    n: usize,
    first: Vec<String>,
}

impl Counted {
    fn add(&mut self, text: String) {
        self.n += 1;
        if self.first.len() < NAMED {
            self.first.push(text);
        }
    }

    /// `2 files in it were left out: a, b`; `None` without any.
    fn told(&self, of: [&str; 2], between: &str) -> Option<String> {
        let were = match self.n {
            0 => return None,
            1 => format!("1 {} was", of[0]),
            n => format!("{n} {} were", of[1]),
        };
        let more = match self.n - self.first.len() {
            0 => String::new(),
            more => format!("{between}and {more} more"),
        };
        Some(format!(
            "{were} left out: {}{more}",
            self.first.join(between)
        ))
    }
}

/// What of an archive was not unpacked.
#[derive(Debug, Default)]
pub struct LeftOut {
    links: Counted,
    files: Counted,
}

impl LeftOut {
    /// The links that lead to no file which the archive holds before them.
    pub fn links(&self) -> Option<String> {
        let told = self.links.told(["link in it", "links in it"], ", ")?;
        let advice = match self.links.n {
            1 => "pack the file that it leads to instead (tar -h)",
            _ => "pack the files that they lead to instead (tar -h)",
        };
        Some(format!("{told}; {advice}"))
    }

    /// The files that could not be unpacked, each with the reason.
    pub fn files(&self) -> Option<String> {
        self.files.told(["file in it", "files in it"], "; ")
    }

    /// Adds a link.
    pub fn add_link(&mut self, name: &Path) {
        self.links.add(shown(name));
    }

    /// Adds a file.
    pub fn add_file(&mut self, name: &Path, why: &dyn std::fmt::Display) {
        self.files.add(format!("{}: {why}", shown(name)));
    }
}

/// An archive that is being unpacked.
pub struct Unpacking<'a> {
    into: &'a Path,
    /// What may still come out of it.
    pub limits: Limits,
    /// What did not.
    pub left_out: LeftOut,
}

impl<'a> Unpacking<'a> {
    /// Unpacks into this folder.
    pub fn new(into: &'a Path, limits: Limits) -> Unpacking<'a> {
        Unpacking {
            into,
            limits,
            left_out: LeftOut::default(),
        }
    }

    /// Writes a file. One with a name that no file can have is left out.
    ///
    /// # Errors
    /// When its content cannot be read or written; the message names the file.
    pub fn file(&mut self, name: &Path, from: &mut impl Read) -> io::Result<()> {
        let Some(place) = self.place(name) else {
            return Ok(());
        };
        self.limits.count()?;
        let named = |error: &io::Error| in_file(name, error);
        let mut file = match cleared(&place).and_then(|()| File::create(&place)) {
            Ok(file) => file,
            Err(error) if is_of_name(&error) => {
                self.left_out.add_file(name, &error);
                return Ok(());
            }
            Err(error) => return Err(named(&error)),
        };
        let most = self.limits.file;
        let written = io::copy(&mut from.take(most.saturating_add(1)), &mut file);
        match written.map_err(|error| named(&error))? > most {
            true => Err(named(&too_much("a file in it has", most))),
            false => Ok(()),
        }
    }

    /// Takes away what was written of a file, and leaves it out. `why` names it.
    ///
    /// # Errors
    /// When that cannot be taken away.
    pub fn give_up(&mut self, name: &Path, why: &io::Error) -> io::Result<()> {
        if let Some(place) = self.place(name) {
            cleared(&place)?;
        }
        self.left_out.files.add(why.to_string());
        Ok(())
    }

    /// Gives a file that was unpacked another name. What was not unpacked has none.
    ///
    /// # Errors
    /// When there are too many files.
    pub fn hard_link(&mut self, name: &Path, to: &Path) -> io::Result<()> {
        let places = self.place(name).zip(self.place(to));
        let Some((place, of)) = places.filter(|(_, of)| of.is_file()) else {
            self.left_out.add_link(name);
            return Ok(());
        };
        if place == of {
            return Ok(());
        }
        self.limits.count()?;
        // It takes no room, however often it is linked.
        match cleared(&place).and_then(|()| std::fs::hard_link(&of, &place)) {
            Ok(()) => {}
            Err(error) => self.left_out.add_file(name, &error),
        }
        Ok(())
    }

    /// Where a file lies: inside of the folder, even if its name points elsewhere.
    fn place(&self, name: &Path) -> Option<PathBuf> {
        let parts = name.components().filter_map(|part| match part {
            Component::Normal(part) => Some(part),
            _ => None,
        });
        let parts: Vec<&OsStr> = parts.collect();
        let whole = || self.into.iter().chain(parts.iter().copied()).collect();
        (!parts.is_empty()).then(whole)
    }
}

/// Makes the folder of a file, and takes away the file that has its name: what is written there
/// must not change another one that is the same by a link.
fn cleared(place: &Path) -> io::Result<()> {
    if let Some(folder) = place.parent() {
        std::fs::create_dir_all(folder)?;
    }
    match place.symlink_metadata() {
        Ok(found) if found.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(_) => std::fs::remove_file(place),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether the name of a file is all that is wrong: too long, or a folder has it.
fn is_of_name(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidFilename
            | ErrorKind::InvalidInput
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::AlreadyExists
    )
}

/// An error of one file of the archive, which is named.
fn in_file(name: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", shown(name)))
}

/// The name of a file in an archive, where it is not too long to read.
fn shown(name: &Path) -> String {
    let name = name.to_string_lossy();
    let n = name.chars().count();
    match n > LONGEST_TOLD {
        true => {
            let end: String = name.chars().skip(n - LONGEST_TOLD).collect();
            format!("…{end}")
        }
        false => name.into_owned(),
    }
}
