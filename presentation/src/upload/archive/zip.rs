//! Which bytes of a zip are which file (PKWARE's APPNOTE.TXT 6.3.10, whose sections are named).

/// How a zip begins (4.3.7).
pub const MAGIC: [u8; 4] = *b"PK\x03\x04";

/// The end of a zip in which its directory is told: the record and the longest comment (4.3.16).
pub const TAIL: u64 = 22 + 0xffff + 20;

/// Bytes of the end record of large zips (4.3.14).
pub const END64: u64 = 56;

/// Bytes of the head before a file's data (4.3.7).
pub const LOCAL: u64 = 30;

const END_MAGIC: &[u8] = b"PK\x05\x06";
const END64_MAGIC: &[u8] = b"PK\x06\x06";
const LOCATOR_MAGIC: &[u8] = b"PK\x06\x07";
const CENTRAL_MAGIC: &[u8] = b"PK\x01\x02";
/// The id of the extra field with numbers that need eight bytes (4.5.3).
const LARGE: u16 = 1;
/// What stands for a number that needs eight bytes (4.4.1.4).
const ELSEWHERE: u64 = 0xffff_ffff;

/// Where the directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At this byte, this many bytes.
    Here {
        /// Where.
        at: u64,
        /// Bytes.
        size: u64,
    },
    /// An end record at this byte says it: ask [`directory64`].
    Zip64(u64),
}

/// How a file is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Not at all.
    Stored,
    /// With deflate.
    Deflated,
}

/// A file in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its path; a folder's ends with a slash.
    pub path: String,
    /// How it is packed.
    pub method: Method,
    /// Bytes of it in the archive.
    pub packed: u64,
    /// Bytes, unpacked.
    pub size: u64,
    /// Where its head is.
    pub header_at: u64,
}

/// Where the directory is, from the end of the zip, which begins at this byte.
///
/// # Errors
/// A sentence that says where it is damaged.
pub fn directory(tail: &[u8], tail_at: u64) -> Result<Place, String> {
    let is_end = |at: &usize| {
        let end = Fields(&tail[*at..]);
        let comment = end.u16(20).map(|bytes| *at + 22 + usize::from(bytes));
        tail[*at..].starts_with(END_MAGIC) && comment == Some(tail.len())
    };
    let end = (0..tail.len()).rev().find(is_end);
    let end = end.ok_or_else(|| damaged(tail_at))?;
    let locator = end.checked_sub(20).map(|at| &tail[at..end]);
    if let Some(locator) = locator.filter(|bytes| bytes.starts_with(LOCATOR_MAGIC)) {
        let at = Fields(locator).u64(8);
        return at.map(Place::Zip64).ok_or_else(|| damaged(tail_at));
    }
    let end = Fields(&tail[end..]);
    let place = end.u32(16).zip(end.u32(12));
    let (at, size) = place.ok_or_else(|| damaged(tail_at))?;
    within(at, size, tail_at.saturating_add(tail.len() as u64))
}

/// Where the directory is, from the end record of a large zip, which is at this byte.
///
/// # Errors
/// A sentence that says where it is damaged.
pub fn directory64(end: &[u8], end_at: u64) -> Result<Place, String> {
    let fields = Fields(end);
    let place = fields.u64(48).zip(fields.u64(40));
    let place = place.filter(|_| end.starts_with(END64_MAGIC));
    let (at, size) = place.ok_or_else(|| damaged(end_at))?;
    within(at, size, end_at)
}

/// The files that a directory at this byte lists.
///
/// # Errors
/// A sentence that says where it is damaged, or which file is packed in a way that no browser
/// knows.
pub fn members(directory: &[u8], directory_at: u64) -> Result<Vec<Member>, String> {
    let mut found = Vec::new();
    let mut rest = directory;
    while !rest.is_empty() {
        let at = directory_at + (directory.len() - rest.len()) as u64;
        let (member, length) = member(rest).ok_or_else(|| damaged(at))?;
        found.push(member?);
        rest = &rest[length..];
    }
    Ok(found)
}

/// Where the data of a file begins, from the head at this byte.
///
/// # Errors
/// A sentence that says where it is damaged.
pub fn data_at(head: &[u8], at: u64) -> Result<u64, String> {
    let fields = Fields(head);
    let lengths = fields.u16(26).zip(fields.u16(28));
    let lengths = lengths.filter(|_| head.starts_with(&MAGIC));
    let (name, extra) = lengths.ok_or_else(|| damaged(at))?;
    Ok(at.saturating_add(LOCAL + u64::from(name) + u64::from(extra)))
}

/// What to say of a zip that is damaged near this byte.
pub fn damaged(at: u64) -> String {
    format!("The zip archive is cut or damaged near byte {at}: pack or copy it again.")
}

fn within(at: u64, size: u64, end: u64) -> Result<Place, String> {
    match at.checked_add(size) {
        Some(last) if last <= end => Ok(Place::Here { at, size }),
        _ => Err(damaged(end)),
    }
}

/// The file that an entry of the directory tells (4.3.12), and the length of the entry.
fn member(entry: &[u8]) -> Option<(Result<Member, String>, usize)> {
    let fields = Fields(entry);
    let [name, extra, comment] = [fields.u16(28)?, fields.u16(30)?, fields.u16(32)?];
    let [name, extra, comment] = [name, extra, comment].map(usize::from);
    let length = 46 + name + extra + comment;
    if !entry.starts_with(CENTRAL_MAGIC) || entry.len() < length {
        return None;
    }
    let path = String::from_utf8_lossy(&entry[46..46 + name]).into_owned();
    let mut large = large(&entry[46 + name..46 + name + extra]);
    // Only the numbers that have no room stand in the extra field, in this order.
    let mut number = |number: u64| match number {
        ELSEWHERE => large.next(),
        number => Some(number),
    };
    let (size, packed) = (number(fields.u32(24)?)?, number(fields.u32(20)?)?);
    let header_at = number(fields.u32(42)?)?;
    let is_encrypted = fields.u16(8)? & 1 == 1;
    let method = match fields.u16(10)? {
        _ if is_encrypted => Err(format!("{path} is encrypted: pack it without a password.")),
        0 => Ok(Method::Stored),
        8 => Ok(Method::Deflated),
        _ => Err(format!(
            "{path} is packed in a way that browsers cannot unpack: send the archive with \
             `tidemark push`, or pack it with deflate."
        )),
    };
    let member = method.map(|method| Member {
        path,
        method,
        packed,
        size,
        header_at,
    });
    Some((member, length))
}

/// The numbers in the extra field for large ones.
fn large(extra: &[u8]) -> impl Iterator<Item = u64> + use<> {
    let mut rest = extra;
    let mut numbers = Vec::new();
    while let Some((id, size)) = Fields(rest).u16(0).zip(Fields(rest).u16(2)) {
        let field = rest.get(4..4 + usize::from(size)).unwrap_or_default();
        if id == LARGE {
            numbers = (0..field.len() / 8)
                .filter_map(|at| Fields(field).u64(8 * at))
                .collect();
        }
        rest = rest.get(4 + usize::from(size)..).unwrap_or_default();
    }
    numbers.into_iter()
}

/// Numbers at positions of these bytes, the low byte first.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn u16(&self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes(self.0.get(at..at + 2)?.try_into().ok()?))
    }

    fn u32(&self, at: usize) -> Option<u64> {
        let bytes = self.0.get(at..at + 4)?.try_into().ok()?;
        Some(u64::from(u32::from_le_bytes(bytes)))
    }

    fn u64(&self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(self.0.get(at..at + 8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::zip::write::SimpleFileOptions;
    use ::zip::{CompressionMethod, ZipWriter};
    use std::io::{Cursor, Read, Write};

    /// The files in these bytes, with what is in them.
    fn files(archive: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
        let from = archive.len().saturating_sub(TAIL as usize);
        let mut place = directory(&archive[from..], from as u64)?;
        if let Place::Zip64(at) = place {
            place = directory64(&archive[at as usize..][..END64 as usize], at)?;
        }
        let Place::Here { at, size } = place else {
            panic!("it is told twice")
        };
        let listed = members(&archive[at as usize..][..size as usize], at)?;
        let file = |member: Member| {
            let data = data_at(&archive[member.header_at as usize..], member.header_at)?;
            let packed = &archive[data as usize..][..member.packed as usize];
            let mut bytes = Vec::new();
            match member.method {
                Method::Stored => bytes.extend(packed),
                Method::Deflated => {
                    let mut unpack = flate2::read::DeflateDecoder::new(packed);
                    unpack.read_to_end(&mut bytes).unwrap();
                }
            }
            assert_eq!(bytes.len() as u64, member.size);
            Ok((member.path, bytes))
        };
        listed.into_iter().map(file).collect()
    }

    fn packed(options: SimpleFileOptions, paths: &[&str]) -> Vec<u8> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for path in paths {
            zip.start_file(*path, options).unwrap();
            zip.write_all(path.repeat(50).as_bytes()).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    #[test]
    fn files_are_where_the_library_puts_them() {
        let paths = ["rank0.pickle", "out/ränk1.pickle"];
        let expected = paths.map(|path| (path.to_owned(), path.repeat(50).into_bytes()));
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            for large in [false, true] {
                let options = SimpleFileOptions::default();
                let options = options.compression_method(method).large_file(large);
                assert_eq!(files(&packed(options, &paths)).unwrap(), expected);
            }
        }
    }

    #[test]
    fn a_comment_does_not_hide_the_directory() {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        zip.start_file("a", SimpleFileOptions::default()).unwrap();
        zip.set_comment("PK\u{5}\u{6} is not the end").unwrap();
        let archive = zip.finish().unwrap().into_inner();
        assert_eq!(files(&archive).unwrap(), [("a".to_owned(), Vec::new())]);
    }

    /// Numbers that need eight bytes stand in the extra field, in the order of the format.
    #[test]
    fn large_numbers_are_read_where_they_stand() {
        let mut entry = vec![0; 46];
        entry[..4].copy_from_slice(CENTRAL_MAGIC);
        entry[20..28].fill(0xff);
        entry[28] = 1;
        entry[30] = 24;
        entry[42] = 7;
        entry.push(b'a');
        entry.extend([9, 0, 0, 0]);
        entry.extend([1, 0, 16, 0]);
        entry.extend((5u64 << 32).to_le_bytes());
        entry.extend((6u64 << 32).to_le_bytes());
        let found = members(&entry, 0).unwrap();
        assert_eq!((found[0].size, found[0].packed), (5 << 32, 6 << 32));
        assert_eq!(found[0].header_at, 7);
    }

    #[test]
    fn damage_and_what_no_browser_knows_are_told() {
        let archive = packed(SimpleFileOptions::default(), &["rank0.pickle"]);
        let why = |bytes: &[u8]| files(bytes).unwrap_err();
        assert!(why(&archive[..archive.len() - 1]).contains("cut or damaged"));
        let central = archive
            .windows(4)
            .position(|bytes| bytes == CENTRAL_MAGIC)
            .unwrap();
        let mut other = archive.clone();
        other[central + 10] = 93;
        assert!(why(&other).contains("tidemark push"), "{}", why(&other));
        let mut locked = archive.clone();
        locked[central + 8] |= 1;
        assert!(why(&locked).contains("encrypted"));
        let mut broken = archive.clone();
        broken[central] = 0;
        assert!(why(&broken).contains("cut or damaged"));
    }

    /// However short or odd, bytes end in an answer.
    #[test]
    fn hostile_directories_end() {
        let archive = packed(SimpleFileOptions::default(), &["a", "b"]);
        for end in 0..archive.len() {
            let _ = directory(&archive[..end], u64::MAX - 100);
            let _ = members(&archive[..end], 0);
            let _ = directory64(&archive[..end], 0);
            let _ = data_at(&archive[..end], 0);
        }
    }
}
