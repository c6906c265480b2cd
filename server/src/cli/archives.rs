//! Archives of snapshots: tar (plain, gzip or zstd) and zip. They are unpacked into a folder that
//! is removed afterwards. They may come from anywhere: what is unpacked has a limit.

use super::CliError;
use super::room::Room;
use crate::config::Config;
use crate::ingest::decompress::Decompressor;
use crate::system::compression::{GZIP_MAGIC, is_tar, is_zstd};
use flate2::read::MultiGzDecoder;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Component, Path, PathBuf};
use tar::{EntryType, PaxExtensions};
use trace::units::Bytes;

/// How a zip file begins (APPNOTE.TXT, 4.3.7).
const ZIP_MAGIC: &[u8] = b"PK\x03\x04";
/// How the names of archives end, longer ones first.
const ENDINGS: [&str; 8] = [
    ".tar.zst", ".tar.gz", ".tzst", ".tgz", ".tar", ".zip", ".zst", ".gz",
];
/// How many bytes are needed to recognise a tar file.
const HEAD: usize = 512;

/// The longest name in a tar file, and the longest list of a member's properties. Real names have
/// some kilobytes at most.
const LONGEST_HEADER: u64 = 64 << 10;

/// What may come out of an archive.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Files.
    files: usize,
    /// Bytes of a file: as many as a server takes, if nothing else is said to it.
    file: u64,
    /// Bytes of all of them: as many as of an upload that is packed.
    all: u64,
}

impl Limits {
    fn of(files: usize, packed: u64) -> Limits {
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
fn too_much(what: &str, limit: u64) -> io::Error {
    io::Error::other(format!(
        "{what} more than {}; if you trust it, unpack it yourself, and name the folder instead",
        Bytes(limit)
    ))
}

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
    _around: Room,
}

impl Unpacked {
    /// Where its files are.
    pub fn folder(&self) -> &Path {
        &self.folder
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
    let Ok(kind) = kind_of(&mut file) else {
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
    match kind {
        Some(Kind::Zip) => unzip(file, into, limits),
        Some(Kind::Tar) => untar(BufReader::new(file), into, limits),
        Some(Kind::TarGz) => untar(MultiGzDecoder::new(BufReader::new(file)), into, limits),
        Some(Kind::TarZst) => zstd::Decoder::new(file).and_then(|file| untar(file, into, limits)),
        None => Ok(()),
    }
    .map_err(bad)?;
    Ok(Some(Unpacked {
        archive: path.to_owned(),
        folder,
        _around: around,
    }))
}

/// The name of an archive without its ending.
fn name_of(archive: &Path) -> String {
    let name = archive.file_name().unwrap_or(archive.as_os_str());
    let name = name.to_string_lossy();
    let ending = ENDINGS.iter().find_map(|ending| {
        let at = name.len().checked_sub(ending.len())?;
        let is_it = name.get(at..)?.eq_ignore_ascii_case(ending);
        (is_it && at > 0).then_some(at)
    });
    let stem = name[..ending.unwrap_or(name.len())].to_owned();
    match stem.as_str() {
        // These are no names of a folder.
        "" | "." | ".." => "archive".to_owned(),
        _ => stem,
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Zip,
    Tar,
    TarGz,
    TarZst,
}

/// The kind of a file, from its first bytes. The file is then at its beginning again.
fn kind_of(file: &mut File) -> io::Result<Option<Kind>> {
    let head = first_bytes(&mut *file)?;
    file.rewind()?;
    let within = |head: io::Result<Vec<u8>>, kind| {
        let is_tar = head.is_ok_and(|head| is_tar(&head));
        is_tar.then_some(kind)
    };
    let kind = if head.starts_with(ZIP_MAGIC) {
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
fn untar(from: impl Read, into: &Path, mut limits: Limits) -> io::Result<()> {
    let mut archive = tar::Archive::new(Bounded::new(from, limits.all));
    // Names of the next file, from the entries before it: GNU's goes before pax's.
    let (mut gnu, mut pax) = (None, None);
    for entry in archive.entries()?.raw(true) {
        let mut entry = entry?;
        match entry.header().entry_type() {
            EntryType::GNULongName => gnu = Some(until_zero(header(&mut entry)?)),
            EntryType::XHeader => pax = name_of_pax(&header(&mut entry)?)?,
            // The name of a link's target.
            EntryType::GNULongLink => {}
            kind => {
                let long: Option<Vec<u8>> = gnu.take().or(pax.take());
                if kind.is_file() {
                    let short = || entry.header().path_bytes().into_owned();
                    let name = path_of(long.unwrap_or_else(short))?;
                    write(&name, &mut entry, into, &mut limits)?;
                }
            }
        }
    }
    Ok(())
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

/// The name that a list of properties gives to the next entry.
fn name_of_pax(list: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut name = None;
    for property in PaxExtensions::new(list) {
        let property = property?;
        match property.key_bytes() {
            b"path" => name = Some(property.value_bytes().to_vec()),
            // Written where a size has no room in the entry itself.
            b"size" => return Err(too_much("a file in it has", Config::UPLOAD_LIMIT.0)),
            _ => {}
        }
    }
    Ok(name)
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

fn unzip(from: File, into: &Path, mut limits: Limits) -> io::Result<()> {
    let mut archive = zip::ZipArchive::new(BufReader::new(from))?;
    let whole = limits.all;
    for at in 0..archive.len() {
        let mut entry = archive.by_index(at)?;
        if entry.is_file() {
            let name = entry.name().map_err(io::Error::other)?;
            let name = PathBuf::from(name.into_owned());
            let mut bounded = Bounded {
                limit: whole,
                ..Bounded::new(&mut entry, limits.all)
            };
            write(&name, &mut bounded, into, &mut limits)?;
            limits.all = bounded.left;
        }
    }
    Ok(())
}

/// Writes a file inside of the folder, even if its name points elsewhere.
fn write(name: &Path, from: &mut impl Read, into: &Path, limits: &mut Limits) -> io::Result<()> {
    let parts = name.components().filter_map(|part| match part {
        Component::Normal(part) => Some(part),
        _ => None,
    });
    let parts: Vec<&OsStr> = parts.collect();
    let Some((file, folders)) = parts.split_last() else {
        return Ok(());
    };
    limits.count()?;
    let folder = folders
        .iter()
        .fold(into.to_owned(), |path, part| path.join(part));
    std::fs::create_dir_all(&folder)?;
    let written = io::copy(
        &mut from.take(limits.file + 1),
        &mut File::create(folder.join(file))?,
    )?;
    match written > limits.file {
        true => Err(too_much("a file in it has", limits.file)),
        false => Ok(()),
    }
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
