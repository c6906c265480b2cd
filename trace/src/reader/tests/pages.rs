//! The page of PyTorch's viewer, which holds the pickle as base64 text.

use super::chunks::read_in_pieces;
use super::layouts::snapshot;
use super::pickle_writer::{Dialect, pickle};
use crate::reader::{Limits, ReadErrorKind, read};

const HEAD: &str = "\n<!DOCTYPE html>\n<html>\n<body>\n<script type=\"module\">\n\
    const local_files = [{\"name\": \"snapshot.pickle\", \"base64\": \"";
const TAIL: &str = "\"}]\nadd_local_files(local_files, 'Active Memory Timeline')\n</script>";

/// As Python's `b64encode` does it.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = [0, 1, 2].map(|at| u32::from(group.get(at).copied().unwrap_or(0)));
        let bits = bits[0] << 16 | bits[1] << 8 | bits[2];
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= group.len() {
                letter.into()
            } else {
                '='
            });
        }
    }
    text
}

fn page(pickle: &[u8]) -> Vec<u8> {
    [HEAD, &base64(pickle), TAIL].concat().into_bytes()
}

#[test]
fn the_pickle_in_a_page_is_read_like_the_pickle() {
    let file = pickle(&snapshot(15), Dialect::cpython(4));
    let mut expected = read(&file, Limits::default()).unwrap();
    expected.pickle_protocol = None;
    // With the zero bytes of PyTorch, and with `=` as others may write it.
    for zeros in 0..=3 {
        let page = page(&[&file[..], &[0; 3][..zeros]].concat());
        assert_eq!(read(&page, Limits::default()).as_ref(), Ok(&expected));
        let every: Vec<usize> = (0..page.len()).collect();
        assert_eq!(read_in_pieces(&page, &every).as_ref(), Ok(&expected));
    }
    let longer = page(&[&file[..], &[0; 5]].concat());
    assert_eq!(read(&longer, Limits::default()).unwrap().trailing_bytes, 2);
}

#[test]
fn errors_name_the_byte_of_the_page() {
    let check = |page: &[u8], offset: usize, expected: &str| {
        let error = read(page, Limits::default()).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(expected), "said: {said}\nwanted: {expected}");
        assert_eq!(error.offset, offset as u64, "{said}");
        let every: Vec<usize> = (0..page.len()).collect();
        assert_eq!(read_in_pieces(page, &every), Err(error));
    };
    let text = HEAD.len();
    // The fifth byte begins in the sixth letter.
    let code = page(&[0x80, 4, b'}', 0x94, b'c', b'x', b'\n', b'y', b'\n', b'.']);
    check(&code, text + 5, "opcode GLOBAL at byte");
    check(&page(b"\xffK\x03\x04"), text, "is not a pickle opcode");
    let file = pickle(&snapshot(3), Dialect::cpython(4));
    let whole = page(&file);
    check(&whole[..text + 40], text + 40, "the file ends at byte");
    check(&whole[..text], text, "the file ends at byte");
    let short = page(&file[..30]);
    check(&short, text + 40, "the file ends at byte");
    let mut bad = whole;
    bad[text + 41] = b'\\';
    check(&bad, text + 41, "base64 text in the page is not whole");
    let cut = [HEAD, "gASV", "gAS", TAIL].concat();
    check(cut.as_bytes(), text + 7, "base64 text in the page is not");
    let html = "starts HTML or XML";
    check(&[b"<p>".to_vec(), vec![b' '; 40_000]].concat(), 0, html);
    check(
        b"<html><script>let alloc_data = {}",
        0,
        "an old PyTorch's viewer",
    );
}

#[test]
fn the_text_may_ask_for_no_more_than_a_pickle() {
    let limits = Limits {
        memory: 1 << 20,
        ..Limits::default()
    };
    let deep = [&[0x80, 4][..], &vec![b'('; 300]].concat();
    let error = read(&page(&deep), limits).unwrap_err();
    assert_eq!(error.kind, ReadErrorKind::Limit("nesting depth", 256));
    let wide = [&[0x80, 4][..], &vec![b'N'; 1 << 20]].concat();
    let error = read(&page(&wide), limits).unwrap_err();
    assert!(matches!(
        error.kind,
        ReadErrorKind::Limit("memory in bytes", _)
    ));
}
