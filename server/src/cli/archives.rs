//! Archives of snapshots: tar (plain, gzip or zstd) and zip. They are unpacked into a folder that
//! is removed afterwards. They may come from anywhere: what is unpacked has a limit.

use super::CliError;
use super::room::Room;
use super::unpacking::{LeftOut, Limits, Unpacking, too_much};
use crate::config::Config;
use crate::system::compression::{GZIP_MAGIC, is_tar, is_zstd};
use flate2::read::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};
use tar::{EntryType, PaxExtensions};

/// How a zip file begins (APPNOTE.TXT, 4.3.7), and how one without files does (4.3.16).
const ZIP_MAGICS: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];
/// How the names of archives end, longer ones first.
const ENDINGS: [&str; 8] = [
    ".tar.zst", ".tar.gz", ".tzst", ".tgz", ".tar", ".zip", ".zst", ".gz",
];
/// How many of them are those of tar files, which come first.
const TAR_ENDINGS: usize = 5;
/// How many bytes are needed to recognise a tar file.
const HEAD: usize = 512;

/// The longest name in a tar file, and the longest list of a member's properties. Real names have
/// some kilobytes at most.
const LONGEST_HEADER: u64 = 64 << 10;

/// Reads an unpacked archive, up to a limit.
struct Bounded<R> {
    from: R,
    limit: u64,
    left: u64,
}

impl<R> Bounded<R> {
    fn new(from: R, limit: u64) -> Bounded<R> {
        let left = limit;
        Bounded { from, limit, left }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        let left = self.left.checked_sub(read as u64);
        self.left = left.ok_or_else(|| too_much("all that it holds is", self.limit))?;
        Ok(read)
    }
}

/// An unpacked archive. Its folder is removed when this is dropped.
#[derive(Debug)]
pub struct Unpacked {
    archive: PathBuf,
    /// Bears the archive's name: a job without a folder of its own is called by it.
    folder: PathBuf,
    left_out: LeftOut,
    _around: Room,
}

impl Unpacked {
    /// Where its files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What it holds beside its files.
    pub const fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    /// The name of one of its files: `ranks.tar.gz:out/rank0.pickle`.
    pub fn called(&self, file: &Path) -> Option<String> {
        let inside = file.strip_prefix(&self.folder).ok()?;
        Some(format!("{}:{}", self.archive.display(), inside.display()))
    }
}

/// Unpacks a file, if it is an archive of at most `most` files.
///
/// # Errors
/// When the archive is damaged, or there is no room for it.
pub fn unpack(path: &Path, most: usize) -> Result<Option<Unpacked>, CliError> {
    let bad = |error: io::Error| CliError::BadInput {
        path: path.to_owned(),
        why: match error.kind() {
            io::ErrorKind::StorageFull => format!(
                "cannot unpack the archive: {} is full; TMPDIR names another folder",
                std::env::temp_dir().display()
            ),
            _ => format!("cannot unpack the archive: {error}"),
        },
    };
    // A pipe can be read only once, and not from its beginning again.
    if !path.is_file() {
        return Ok(None);
    }
    // If the file cannot be opened, its reader will report that.
    let Ok(mut file) = File::open(path) else {
        return Ok(None);
    };
    let Ok(kind) = kind_of(path, &mut file) else {
        return Ok(None);
    };
    let around = match kind {
        None => return Ok(None),
        Some(_) => Room::new(&std::env::temp_dir()).map_err(bad)?,
    };
    let folder = around.path().join(name_of(path));
    std::fs::create_dir(&folder).map_err(bad)?;
    let into = folder.as_path();
    let limits = Limits::of(most, file.metadata().map_err(bad)?.len());
    let left_out = match kind {
        Some(Kind::Zip) => unzip(file, into, limits),
        Some(Kind::Tar) => untar(BufReader::new(file), into, limits),
        Some(Kind::TarGz) => untar(MultiGzDecoder::new(BufReader::new(file)), into, limits),
        Some(Kind::TarZst) => zstd::Decoder::new(file).and_then(|file| untar(file, into, limits)),
        None => Ok(LeftOut::default()),
    }
    .map_err(bad)?;
    Ok(Some(Unpacked {
        archive: path.to_owned(),
        folder,
        left_out,
        _around: around,
    }))
}

/// The name of an archive without its ending.
fn name_of(archive: &Path) -> String {
    let name = archive.file_name().unwrap_or(archive.as_os_str());
    let name = name.to_string_lossy();
    let stem = name[..without(&name, &ENDINGS).unwrap_or(name.len())].to_owned();
    match stem.as_str() {
        // These are no names of a folder.
        "" | "." | ".." => "archive".to_owned(),
        _ => stem,
    }
}

/// Where the first of these endings begins that a name has.
fn without(name: &str, endings: &[&str]) -> Option<usize> {
    endings.iter().find_map(|ending| {
        let at = name.len().checked_sub(ending.len())?;
        let is_it = name.get(at..)?.eq_ignore_ascii_case(ending);
        (is_it && at > 0).then_some(at)
    })
}

#[derive(Clone, Copy)]
enum Kind {
    Zip,
    Tar,
    TarGz,
    TarZst,
}

/// The kind of a file, from its first bytes. The file is then at its beginning again.
fn kind_of(path: &Path, file: &mut File) -> io::Result<Option<Kind>> {
    let head = first_bytes(&mut *file)?;
    file.rewind()?;
    // A tar file without files is zeros, and so is a snapshot that was never written.
    let is_called_tar = without(&path.to_string_lossy(), &ENDINGS[..TAR_ENDINGS]).is_some();
    let is_empty = |head: &[u8]| head.len() == HEAD && head.iter().all(|byte| *byte == 0);
    let is_tar = |head: &[u8]| is_tar(head) || (is_called_tar && is_empty(head));
    let within = |head: io::Result<Vec<u8>>, kind| {
        let is_tar = head.is_ok_and(|head| is_tar(&head));
        is_tar.then_some(kind)
    };
    let kind = if ZIP_MAGICS.iter().any(|magic| head.starts_with(magic)) {
        Some(Kind::Zip)
    } else if is_tar(&head) {
        Some(Kind::Tar)
    } else if head.starts_with(&GZIP_MAGIC) {
        within(first_bytes(MultiGzDecoder::new(&mut *file)), Kind::TarGz)
    } else if is_zstd(&head) {
        let decoder = zstd::Decoder::new(&mut *file)?;
        within(first_bytes(decoder), Kind::TarZst)
    } else {
        None
    };
    file.rewind()?;
    Ok(kind)
}

fn first_bytes(from: impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(HEAD);
    from.take(HEAD as u64).read_to_end(&mut head)?;
    Ok(head)
}

/// Unpacks a tar file. The names of its members are put together here: the crate would read a long
/// one into memory, however long it is.
fn untar(from: impl Read, into: &Path, limits: Limits) -> io::Result<LeftOut> {
    let mut to = Unpacking::new(into, limits);
    let mut archive = tar::Archive::new(Bounded::new(from, limits.all));
    // Names of the next file, from the entries before it: GNU's go before pax's.
    let (mut gnu, mut pax) = (Names::default(), Names::default());
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        match entry.header().entry_type() {
            EntryType::GNULongName => gnu.path = Some(until_zero(header(&mut entry)?)),
            EntryType::GNULongLink => gnu.link = Some(until_zero(header(&mut entry)?)),
            EntryType::XHeader => pax = names_of_pax(&header(&mut entry)?)?,
            kind => {
                let (gnu, pax) = (std::mem::take(&mut gnu), std::mem::take(&mut pax));
                let short = || entry.header().path_bytes().into_owned();
                let name = path_of(gnu.path.or(pax.path).unwrap_or_else(short))?;
                match kind {
                    EntryType::Link => {
                        let short = || Some(entry.header().link_name_bytes()?.into_owned());
                        let target = gnu.link.or(pax.link).or_else(short).unwrap_or_default();
                        to.hard_link(&name, &path_of(target)?)?;
                    }
                    EntryType::Symlink => to.left_out.add_link(&name),
                    EntryType::GNUSparse => {
                        let why = "it is packed without its empty parts: pack it without -S";
                        to.left_out.add_file(&name, &why);
                    }
                    kind if kind.is_file() => to.file(&name, &mut entry)?,
                    _ => {}
                }
            }
        }
    }
    Ok(to.left_out)
}

/// What entries before a file say of it.
#[derive(Default)]
struct Names {
    path: Option<Vec<u8>>,
    /// The file that a link leads to.
    link: Option<Vec<u8>>,
}

/// The content of an entry that describes another one.
fn header(entry: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    entry.take(LONGEST_HEADER + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > LONGEST_HEADER {
        true => Err(too_much("the name of a file in it takes", LONGEST_HEADER)),
        false => Ok(bytes),
    }
}

fn until_zero(mut name: Vec<u8>) -> Vec<u8> {
    let end = name.iter().position(|byte| *byte == 0);
    name.truncate(end.unwrap_or(name.len()));
    name
}

/// The names that a list of properties gives to the next entry.
fn names_of_pax(list: &[u8]) -> io::Result<Names> {
    let mut names = Names::default();
    for property in PaxExtensions::new(list) {
        let property = property?;
        match property.key_bytes() {
            b"path" => names.path = Some(property.value_bytes().to_vec()),
            b"linkpath" => names.link = Some(property.value_bytes().to_vec()),
            // Written where a size has no room in the entry itself.
            b"size" => return Err(too_much("a file in it has", Config::UPLOAD_LIMIT.0)),
            _ => {}
        }
    }
    Ok(names)
}

#[cfg(unix)]
fn path_of(name: Vec<u8>) -> io::Result<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    Ok(PathBuf::from(std::ffi::OsString::from_vec(name)))
}

#[cfg(not(unix))]
fn path_of(name: Vec<u8>) -> io::Result<PathBuf> {
    let name = String::from_utf8(name).map_err(io::Error::other)?;
    Ok(PathBuf::from(name))
}

/// Unpacks a zip file. Each of its files is found by itself: one that is damaged is left out.
fn unzip(from: File, into: &Path, limits: Limits) -> io::Result<LeftOut> {
    let mut to = Unpacking::new(into, limits);
    let mut archive = zip::ZipArchive::new(BufReader::new(from))?;
    for at in 0..archive.len() {
        let name = match archive.name_for_index(at) {
            Some(Ok(name)) => PathBuf::from(name.into_owned()),
            _ => PathBuf::from(format!("(entry {at})")),
        };
        let mut entry = match archive.by_index(at) {
            Ok(entry) => entry,
            Err(error) => {
                to.left_out.add_file(&name, &error);
                continue;
            }
        };
        if entry.is_symlink() {
            to.left_out.add_link(&name);
        } else if entry.is_file() {
            let mut bounded = Bounded {
                limit: limits.all,
                ..Bounded::new(&mut entry, to.limits.all)
            };
            let written = to.file(&name, &mut bounded);
            to.limits.all = bounded.left;
            match written {
                Err(error) if is_of_content(&error) => to.give_up(&name, &error)?,
                written => written?,
            }
        }
    }
    Ok(to.left_out)
}

/// Whether the content of a file in a zip file is damaged.
fn is_of_content(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn tarred(names: &[&str]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for name in names {
            let mut header = tar::Header::new_ustar();
            // A hostile writer would do this: the name is not checked.
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_size(name.len() as u64);
            header.set_cksum();
            tar.append(&header, name.as_bytes()).unwrap();
        }
        tar.into_inner().unwrap()
    }

    fn zipped(names: &[&str]) -> Vec<u8> {
        let mut zip = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
        for name in names {
            let options = zip::write::SimpleFileOptions::default();
            zip.start_file(*name, options).unwrap();
            zip.write_all(name.as_bytes()).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    fn gzipped(bytes: &[u8]) -> Vec<u8> {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    }

    /// The files in the folder after unpacking these bytes.
    fn unpacked(bytes: &[u8]) -> Result<Option<Vec<String>>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("archive");
        std::fs::write(&path, bytes).unwrap();
        let Some(found) = unpack(&path, 3).map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let mut names = Vec::new();
        let mut folders = vec![found.folder().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => {
                        let called = found.called(&path).unwrap();
                        names.push(called.rsplit_once(':').unwrap().1.to_owned());
                    }
                }
            }
        }
        names.sort();
        Ok(Some(names))
    }

    #[test]
    fn every_kind_of_archive_is_unpacked_below_its_folder() {
        let names = ["out/rank0.pickle", "../../rank1.pickle", "/rank2.pickle"];
        let tar = tarred(&names);
        let kinds = [
            zipped(&names),
            gzipped(&tar),
            zstd::encode_all(&tar[..], 1).unwrap(),
            tar,
        ];
        for bytes in kinds {
            let found = unpacked(&bytes).unwrap().unwrap();
            assert_eq!(found, ["out/rank0.pickle", "rank1.pickle", "rank2.pickle"]);
        }
    }

    #[test]
    fn an_archive_is_called_without_its_ending() {
        let check = |path: &str, expected: &str| assert_eq!(name_of(Path::new(path)), expected);
        check("/srv/r.zip", "r");
        check("ranks.tar.gz", "ranks");
        check("ranks.v2.TGZ", "ranks.v2");
        check("a.tar.zst", "a");
        check("ranks", "ranks");
        check(".zip", ".zip");
        check("..tar", "archive");
        check("größe.tar", "größe");
    }

    #[test]
    fn other_files_are_left_alone_and_damaged_archives_are_told() {
        assert_eq!(unpacked(b"\x80\x04.").unwrap(), None);
        assert_eq!(unpacked(&gzipped(b"\x80\x04.")).unwrap(), None);
        assert_eq!(unpacked(b"").unwrap(), None);
        let whole = tarred(&["rank0.pickle", "rank1.pickle"]);
        let cut = unpacked(&whole[..700]).unwrap_err();
        assert!(cut.contains("cannot unpack the archive"), "{cut}");
        let many = tarred(&["a", "b", "c", "d"]);
        assert!(unpacked(&many).unwrap_err().contains("too many files"));
    }

    /// A tar file with one entry of this kind before a file, as a hostile writer makes it.
    fn tarred_after(kind: EntryType, content: &[u8], name: &str) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (kind, name, content) in [(kind, "x", content), (EntryType::Regular, name, b"abc")] {
            let mut header = tar::Header::new_ustar();
            header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(kind);
            header.set_size(content.len() as u64);
            header.set_cksum();
            tar.append(&header, content).unwrap();
        }
        tar.into_inner().unwrap()
    }

    /// A tar file with entries of these kinds: name, target of a link, content.
    fn tar_of(entries: &[(EntryType, [&str; 3])]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (kind, [name, target, content]) in entries {
            let mut header = tar::Header::new_ustar();
            header.set_path(name).unwrap();
            if !target.is_empty() {
                header.set_link_name(target).unwrap();
            }
            header.set_entry_type(*kind);
            header.set_size(content.len() as u64);
            header.set_cksum();
            tar.append(&header, content.as_bytes()).unwrap();
        }
        tar.into_inner().unwrap()
    }

    /// An archive of this name, if it is one.
    fn opened(name: &str, bytes: &[u8]) -> Option<Unpacked> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        unpack(&path, 9).unwrap()
    }

    #[test]
    fn a_hard_link_is_a_file_and_other_links_are_named() {
        let archive = tar_of(&[
            (EntryType::Regular, ["a/rank0.pickle", "", "zero"]),
            (EntryType::Link, ["a/rank1.pickle", "a/rank0.pickle", ""]),
            (EntryType::Link, ["a/rank2.pickle", "./a/rank0.pickle", ""]),
            (EntryType::Symlink, ["rank3.pickle", "/etc/passwd", ""]),
            (EntryType::Link, ["rank4.pickle", "/etc/passwd", ""]),
            // What is written over a link does not change the file.
            (EntryType::Regular, ["a/rank2.pickle", "", "two"]),
        ]);
        let found = opened("a.tar", &archive).unwrap();
        let read = |name: &str| std::fs::read_to_string(found.folder().join(name)).ok();
        for (name, expected) in [
            ("a/rank0.pickle", Some("zero")),
            ("a/rank1.pickle", Some("zero")),
            ("a/rank2.pickle", Some("two")),
            ("rank3.pickle", None),
            ("rank4.pickle", None),
        ] {
            assert_eq!(read(name).as_deref(), expected, "{name}");
        }
        let told = "2 links in it were left out: rank3.pickle, rank4.pickle; pack the files that \
                    they lead to instead (tar -h)";
        assert_eq!(found.left_out().links().as_deref(), Some(told));
        assert_eq!(found.left_out().files(), None);
    }

    #[test]
    fn a_bad_file_is_named_and_loses_no_good_one() {
        let check = |bytes: &[u8], good: &[&str], bad: &[&str]| {
            let found = opened("a", bytes).unwrap();
            for name in good {
                assert!(found.folder().join(name).is_file(), "{name}");
            }
            let said = found.left_out().files().unwrap_or_default();
            for name in bad {
                assert!(said.contains(&format!("{name}: ")), "{said}");
                assert!(!found.folder().join(name).is_file(), "{name}");
            }
        };
        let twice = ["rank0.pickle", "rank0.pickle/rank1.pickle", "rank2.pickle"];
        check(&tarred(&twice), &[twice[0], twice[2]], &[twice[1]]);
        let long = format!("{}/rank1.pickle", "y".repeat(300));
        check(
            &zipped(&["rank0.pickle", &long]),
            &["rank0.pickle"],
            &["/rank1.pickle"],
        );
        let mut zip = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default();
        let stored = options.compression_method(zip::CompressionMethod::Stored);
        for (name, content) in [("rank0.pickle", "damaged"), ("rank1.pickle", "whole")] {
            zip.start_file(name, stored).unwrap();
            zip.write_all(content.as_bytes()).unwrap();
        }
        let mut bytes = zip.finish().unwrap().into_inner();
        let at = bytes.windows(7).position(|some| some == b"damaged");
        bytes[at.unwrap()] ^= 1;
        check(&bytes, &["rank1.pickle"], &["rank0.pickle"]);
    }

    #[test]
    fn an_archive_without_files_is_one_and_a_snapshot_of_zeros_is_none() {
        let is_one = |name: &str, bytes: &[u8]| opened(name, bytes).is_some();
        let (tar, zip) = ([0; 1024], zipped(&[]));
        assert!(is_one("ranks.tar", &tar));
        assert!(is_one("ranks.tgz", &gzipped(&tar)));
        assert!(is_one("ranks", &zip));
        assert!(!is_one("rank0.pickle", &tar));
    }

    #[test]
    fn long_names_are_read_but_not_endless_ones() {
        let long = format!("{}rank7.pickle", "folder/".repeat(30));
        let gnu = [long.as_bytes(), &[0]].concat();
        let pax = |name: &str| {
            // A record begins with its own length, which here has five digits.
            let record = format!(" path={name}\n");
            format!("{:05}{record}", record.len() + 5).into_bytes()
        };
        let found = unpacked(&tarred_after(EntryType::GNULongName, &gnu, "short"));
        assert_eq!(found.unwrap().unwrap(), [long.as_str()]);
        let found = unpacked(&tarred_after(EntryType::XHeader, &pax(&long), "short"));
        assert_eq!(found.unwrap().unwrap(), [long.as_str()]);
        let endless = "x".repeat(70_000);
        for (kind, content) in [
            (EntryType::GNULongName, endless.clone().into_bytes()),
            (EntryType::XHeader, pax(&endless)),
        ] {
            let why = unpacked(&tarred_after(kind, &content, "short")).unwrap_err();
            assert!(why.contains("more than 64.0 KiB"), "{why}");
            assert!(why.contains("unpack it yourself"), "{why}");
        }
    }

    #[test]
    fn neither_a_file_nor_all_of_an_archive_is_endless() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["rank0.pickle", "rank1.pickle"];
        let limits = |file, all| Limits {
            files: 9,
            file,
            all,
        };
        let tar = |limits| untar(&tarred(&names)[..], folder.path(), limits);
        let zip = |limits| {
            let path = folder.path().join("a.zip");
            std::fs::write(&path, zipped(&names)).unwrap();
            unzip(File::open(path).unwrap(), folder.path(), limits)
        };
        // Each file has 12 bytes, and in a tar file a header.
        tar(limits(12, 5000)).unwrap();
        zip(limits(12, 24)).unwrap();
        for why in [tar(limits(11, 5000)), zip(limits(11, 24))] {
            assert!(why.unwrap_err().to_string().contains("a file in it has"));
        }
        for why in [tar(limits(12, 1000)), zip(limits(12, 23))] {
            assert!(why.unwrap_err().to_string().contains("all that it holds"));
        }
        // The limit is told, not what was left of it.
        let why = zip(limits(12, 23)).unwrap_err().to_string();
        assert!(why.contains("more than 23 B"), "{why}");
        // Of what is packed, as much may come out as of an upload.
        assert_eq!(Limits::of(9, 1 << 20).all, (64 + 500) << 20);
        assert_eq!(Limits::of(9, 60 << 30).all, 64 << 30);
    }
}
