//! Archives of snapshots: tar (plain, gzip or zstd) and zip. They are unpacked into a folder that
//! is removed afterwards.

use super::CliError;
use crate::compression::{GZIP_MAGIC, is_tar, is_zstd};
use flate2::read::MultiGzDecoder;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Component, Path, PathBuf};
use tempfile::TempDir;

/// How a zip file begins (APPNOTE.TXT, 4.3.7).
const ZIP_MAGIC: &[u8] = b"PK\x03\x04";
/// How the names of archives end, longer ones first.
const ENDINGS: [&str; 8] = [
    ".tar.zst", ".tar.gz", ".tzst", ".tgz", ".tar", ".zip", ".zst", ".gz",
];
/// How many bytes are needed to recognise a tar file.
const HEAD: usize = 512;

/// An unpacked archive. Its folder is removed when this is dropped.
#[derive(Debug)]
pub struct Unpacked {
    archive: PathBuf,
    /// Bears the archive's name: a job without a folder of its own is called by it.
    folder: PathBuf,
    _around: TempDir,
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
        why: format!("cannot unpack the archive: {error}"),
    };
    // If the file cannot be opened, its reader will report that.
    let Ok(mut file) = File::open(path) else {
        return Ok(None);
    };
    let Ok(kind) = kind_of(&mut file) else {
        return Ok(None);
    };
    let around = match kind {
        None => return Ok(None),
        Some(_) => TempDir::with_prefix("tidemark-").map_err(bad)?,
    };
    let folder = around.path().join(name_of(path));
    std::fs::create_dir(&folder).map_err(bad)?;
    let into = folder.as_path();
    match kind {
        Some(Kind::Zip) => unzip(file, into, most),
        Some(Kind::Tar) => untar(BufReader::new(file), into, most),
        Some(Kind::TarGz) => untar(MultiGzDecoder::new(BufReader::new(file)), into, most),
        Some(Kind::TarZst) => zstd::Decoder::new(file).and_then(|file| untar(file, into, most)),
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

fn untar(from: impl Read, into: &Path, most: usize) -> io::Result<()> {
    let mut archive = tar::Archive::new(from);
    let mut room = most;
    for entry in archive.entries()? {
        let mut entry = entry?;
        if entry.header().entry_type().is_file() {
            let name = entry.path()?.into_owned();
            write(&name, &mut entry, into, &mut room)?;
        }
    }
    Ok(())
}

fn unzip(from: File, into: &Path, most: usize) -> io::Result<()> {
    let mut archive = zip::ZipArchive::new(BufReader::new(from))?;
    let mut room = most;
    for at in 0..archive.len() {
        let mut entry = archive.by_index(at)?;
        if entry.is_file() {
            let name = entry.name().map_err(io::Error::other)?;
            let name = PathBuf::from(name.into_owned());
            write(&name, &mut entry, into, &mut room)?;
        }
    }
    Ok(())
}

/// Writes a file inside of the folder, even if its name points elsewhere.
fn write(name: &Path, from: &mut impl Read, into: &Path, room: &mut usize) -> io::Result<()> {
    let parts = name.components().filter_map(|part| match part {
        Component::Normal(part) => Some(part),
        _ => None,
    });
    let parts: Vec<&OsStr> = parts.collect();
    let Some((file, folders)) = parts.split_last() else {
        return Ok(());
    };
    if *room == 0 {
        return Err(io::Error::other("it holds too many files"));
    }
    *room -= 1;
    let folder = folders
        .iter()
        .fold(into.to_owned(), |path, part| path.join(part));
    std::fs::create_dir_all(&folder)?;
    io::copy(from, &mut File::create(folder.join(file))?)?;
    Ok(())
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
}
