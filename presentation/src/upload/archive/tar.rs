//! Which bytes of a tar are which file (POSIX.1-2017, pax, "ustar Interchange Format"; the GNU
//! manual, "Basic Tar Format").

/// Everything in a tar begins at a multiple of this, and a head is as long, bytes.
pub const BLOCK: u64 = 512;

/// The mark in a head, and where it is.
const MAGIC: &[u8] = b"ustar";
const MAGIC_AT: usize = 257;

/// Something in the archive; its data follows its head.
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// Bytes of its data.
    pub size: u64,
}

/// What something in the archive is.
pub enum Kind {
    /// A file with this path.
    File(String),
    /// What the next entry is called: its data is for [`Names::read`].
    Names,
    /// A folder, a link, or something else that is not sent.
    Other,
}

/// What was said of the next entry, where its own head has no room.
#[derive(Default)]
pub struct Names {
    path: Option<String>,
    size: Option<u64>,
}

impl Names {
    /// Takes the data of an entry of [`Kind::Names`], after the head that announced it.
    pub fn read(&mut self, data: &[u8], head: &[u8]) {
        if kind_byte(head) == b'L' {
            self.path = Some(text(data));
            return;
        }
        let mut rest = data;
        // Each record is `LENGTH KEY=VALUE\n`; the length counts all of it.
        while let Some(space) = rest.iter().position(|&byte| byte == b' ') {
            let length = text(&rest[..space]).parse::<usize>().unwrap_or(0);
            let Some(record) = rest.get(space + 1..length.saturating_sub(1)) else {
                return;
            };
            let record = text(record);
            match record.split_once('=') {
                Some(("path", path)) => self.path = Some(path.to_owned()),
                Some(("size", size)) => self.size = size.parse().ok(),
                _ => {}
            }
            rest = rest.get(length..).unwrap_or_default();
        }
    }
}

/// Whether a file that begins like this is a tar.
pub fn is_tar(head: &[u8]) -> bool {
    head.get(MAGIC_AT..MAGIC_AT + MAGIC.len()) == Some(MAGIC)
}

/// What the head at this byte announces; `None` at the end of the archive.
///
/// # Errors
/// A sentence that says where it is damaged.
pub fn entry(head: &[u8], at: u64, names: &mut Names) -> Result<Option<Entry>, String> {
    // Some programs leave out the two empty blocks at the end.
    if head.iter().all(|&byte| byte == 0) {
        return Ok(None);
    }
    if (head.len() as u64) < BLOCK {
        return Err(cut(at));
    }
    let damaged = || format!("The tar archive is damaged at byte {at}: pack it again.");
    if number(&head[148..156]) != Some(checksum(head)) {
        return Err(damaged());
    }
    let size = number(&head[124..136]).ok_or_else(damaged)?;
    let kind = match kind_byte(head) {
        b'L' | b'x' => Kind::Names,
        b'K' | b'g' => Kind::Other,
        kind => {
            let told = std::mem::take(names);
            let size = told.size.unwrap_or(size);
            let path = told.path.unwrap_or_else(|| path_in(head));
            let kind = match kind {
                b'0' | b'7' | 0 => Kind::File(path),
                _ => Kind::Other,
            };
            return Ok(Some(Entry { kind, size }));
        }
    };
    Ok(Some(Entry { kind, size }))
}

/// What to say of an archive that ends in the entry at this byte.
pub fn cut(at: u64) -> String {
    format!("The tar archive ends in the middle of the file at byte {at}: copy it again.")
}

fn kind_byte(head: &[u8]) -> u8 {
    head.get(156).copied().unwrap_or(0)
}

fn path_in(head: &[u8]) -> String {
    let name = text(&head[..100]);
    let prefix = text(&head[345..500]);
    // GNU's own format has other things where POSIX has the first part of a path.
    match head[MAGIC_AT + MAGIC.len()] == 0 && !prefix.is_empty() {
        true => format!("{prefix}/{name}"),
        false => name,
    }
}

/// Octal digits, or, for numbers that need more, bytes after a first one of 0x80.
fn number(field: &[u8]) -> Option<u64> {
    if field[0] == 0x80 {
        let (high, low) = field.split_at(field.len() - 8);
        let is_small = high[1..].iter().all(|&byte| byte == 0);
        return is_small.then(|| u64::from_be_bytes(low.try_into().unwrap_or_default()));
    }
    // The digits stand between spaces and zero bytes.
    let digits = field.iter().skip_while(|&&byte| byte == b' ');
    let digits = digits.take_while(|&&byte| byte != b' ' && byte != 0);
    digits.copied().try_fold(0u64, |number, byte| match byte {
        b'0'..=b'7' => number.checked_mul(8)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

/// The sum of the bytes of a head, with spaces for the sum itself.
fn checksum(head: &[u8]) -> u64 {
    let bytes = head.iter().enumerate();
    let byte = |(at, &byte): (usize, &u8)| match at {
        148..156 => u64::from(b' '),
        _ => u64::from(byte),
    };
    bytes.map(byte).sum()
}

/// Up to the first zero.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::tar::{Builder, EntryType, Header};

    /// The files in these bytes, with what is in them.
    fn files(archive: &[u8]) -> Result<Vec<(String, Vec<u8>)>, String> {
        let (mut found, mut names, mut at) = (Vec::new(), Names::default(), 0);
        let from = |at: usize, bytes: usize| {
            let rest = archive.get(at..).unwrap_or_default();
            &rest[..bytes.min(rest.len())]
        };
        while let Some(Entry { kind, size }) =
            entry(from(at, BLOCK as usize), at as u64, &mut names)?
        {
            let head = from(at, BLOCK as usize);
            let data = from(at + BLOCK as usize, size as usize);
            match kind {
                Kind::File(path) => found.push((path, data.to_owned())),
                Kind::Names => names.read(data, head),
                Kind::Other => {}
            }
            at = (at + BLOCK as usize + size as usize).next_multiple_of(BLOCK as usize);
        }
        Ok(found)
    }

    fn packed(mut header: Header, paths: &[&str]) -> Vec<u8> {
        let mut tar = Builder::new(Vec::new());
        for path in paths {
            header.set_size(path.len() as u64);
            header.set_entry_type(EntryType::Regular);
            tar.append_data(&mut header, path, path.as_bytes()).unwrap();
        }
        header.set_size(0);
        header.set_entry_type(EntryType::Directory);
        tar.append_data(&mut header, "a-folder", &b""[..]).unwrap();
        tar.into_inner().unwrap()
    }

    #[test]
    fn files_are_where_the_library_puts_them() {
        let long = format!("{}/rank1.pickle", "folder/".repeat(30));
        let deep = format!("{}rank2.pickle", "deep/".repeat(24));
        let paths = ["rank0.pickle", "out/ränk.pickle", &deep, &long];
        for header in [Header::new_gnu(), Header::new_ustar()] {
            let long_fits = header.as_ustar().is_none();
            let paths = if long_fits { &paths[..] } else { &paths[..3] };
            let file = |path: &&str| (path.to_string(), path.as_bytes().to_vec());
            let expected: Vec<_> = paths.iter().map(file).collect();
            assert_eq!(files(&packed(header, paths)).unwrap(), expected);
        }
    }

    #[test]
    fn longer_names_and_sizes_of_pax_are_read() {
        let mut tar = Builder::new(Vec::new());
        let long = "é".repeat(300);
        tar.append_pax_extensions([("path", long.as_bytes()), ("size", b"5"), ("mtime", b"1.5")])
            .unwrap();
        let mut header = Header::new_ustar();
        header.set_size(5);
        header.set_entry_type(EntryType::Regular);
        header.set_path("short").unwrap();
        header.set_cksum();
        tar.append(&header, &b"bytes"[..]).unwrap();
        let archive = tar.into_inner().unwrap();
        assert_eq!(files(&archive).unwrap(), [(long, b"bytes".to_vec())]);
    }

    #[test]
    fn large_sizes_are_binary() {
        let mut field = [0; 12];
        field[0] = 0x80;
        field[4..].copy_from_slice(&(9u64 << 33).to_be_bytes());
        assert_eq!(number(&field), Some(9 << 33));
        assert_eq!(number(b"00000000017\0"), Some(15));
        assert_eq!(number(b"       17 \0\0"), Some(15));
        assert_eq!(number(b"no number \0\0"), None);
    }

    #[test]
    fn damage_is_told_with_its_place() {
        let mut archive = packed(Header::new_ustar(), &["rank0.pickle", "rank1.pickle"]);
        assert!(is_tar(&archive));
        archive[1024] ^= 1;
        let why = files(&archive).unwrap_err();
        assert!(why.contains("damaged at byte 1024"), "{why}");
        let cut = files(&archive[..1100]).unwrap_err();
        assert!(cut.contains("ends in the middle"), "{cut}");
    }

    #[test]
    fn hostile_records_end() {
        let head = packed(Header::new_ustar(), &["a"]);
        for data in [
            "0 path=a\n",
            "99999 path=a\n",
            "x path=a\n",
            "3 ",
            "18446744073709551615 a=b\n",
            " ",
        ] {
            Names::default().read(data.as_bytes(), &head);
        }
    }
}
