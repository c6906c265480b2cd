//! A pickler for tests: writes what CPython's and PyTorch's C++ picklers would write.

use std::collections::HashMap;
use std::rc::Rc;

/// A Python object.
#[derive(Clone, Debug)]
pub enum Py {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Str(String),
    List(Vec<Py>),
    Tuple(Vec<Py>),
    Dict(Vec<(String, Py)>),
    /// One object, wherever this `Rc` is used: written once, then referred to.
    Shared(Rc<Py>),
}

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// `pickle.dump`: remembers an object before its content.
    CPython,
    /// `torch::jit::Pickler`: remembers an object after its content, always writes marks.
    Cpp,
}

/// How lists and dictionaries are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filling {
    /// `MARK … APPENDS`, with at most so many items at a time; a single last item by `APPEND`.
    Batches(usize),
    /// Every item by its own `APPEND` or `SETITEM`.
    OneByOne,
}

#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    pub protocol: u8,
    pub author: Author,
    pub filling: Filling,
}

impl Dialect {
    pub const fn cpython(protocol: u8) -> Dialect {
        Dialect {
            protocol,
            author: Author::CPython,
            filling: Filling::Batches(1000),
        }
    }

    pub const CPP: Dialect = Dialect {
        protocol: 2,
        author: Author::Cpp,
        filling: Filling::Batches(usize::MAX),
    };
}

/// The pickle of `root`.
pub fn pickle(root: &Py, dialect: Dialect) -> Vec<u8> {
    let mut writer = Writer {
        dialect,
        out: Vec::new(),
        memo_len: 0,
        keys: HashMap::new(),
        shared: HashMap::new(),
    };
    writer.write(root);
    writer.out.push(b'.');
    let mut head = vec![0x80, dialect.protocol];
    if dialect.protocol >= 4 {
        head.push(0x95);
        head.extend((writer.out.len() as u64).to_le_bytes());
    }
    head.extend(writer.out);
    head
}

struct Writer {
    dialect: Dialect,
    out: Vec<u8>,
    memo_len: u32,
    /// Dictionary keys are one string object each.
    keys: HashMap<String, u32>,
    shared: HashMap<*const Py, u32>,
}

impl Writer {
    fn write(&mut self, value: &Py) {
        match value {
            Py::None => self.out.push(b'N'),
            Py::Bool(b) => self.out.push(if *b { 0x88 } else { 0x89 }),
            Py::Int(n) => self.int(*n),
            Py::Float(x) => {
                self.out.push(b'G');
                self.out.extend(x.to_be_bytes());
            }
            Py::Str(text) => {
                self.text(text);
                self.remember();
            }
            Py::List(items) => {
                self.out.push(b']');
                self.fill(items.len(), [b'a', b'e'], |writer, at| {
                    writer.write(&items[at]);
                });
            }
            Py::Dict(entries) => {
                self.out.push(b'}');
                self.fill(entries.len(), [b's', b'u'], |writer, at| {
                    writer.key(&entries[at].0);
                    writer.write(&entries[at].1);
                });
            }
            Py::Tuple(items) => self.tuple(items),
            Py::Shared(object) => match self.shared.get(&Rc::as_ptr(object)) {
                Some(&index) => self.refer(index),
                None => {
                    let before = self.memo_len;
                    self.write(object);
                    let index = match self.dialect.author {
                        Author::CPython if !matches!(**object, Py::Tuple(_)) => before,
                        _ => self.memo_len - 1,
                    };
                    self.shared.insert(Rc::as_ptr(object), index);
                }
            },
        }
    }

    fn fill(&mut self, n: usize, [one, many]: [u8; 2], mut item: impl FnMut(&mut Self, usize)) {
        let cpp = self.dialect.author == Author::Cpp;
        if !cpp {
            self.remember();
        }
        match self.dialect.filling {
            Filling::OneByOne => (0..n).for_each(|at| {
                item(self, at);
                self.out.push(one);
            }),
            Filling::Batches(size) => {
                let mut at = 0;
                while at < n || (cpp && at == 0) {
                    let end = at.saturating_add(size).min(n);
                    let single = end - at == 1 && !cpp;
                    if !single {
                        self.out.push(b'(');
                    }
                    (at..end).for_each(|at| item(self, at));
                    self.out.push(if single { one } else { many });
                    at = end.max(1);
                }
            }
        }
        if cpp {
            self.remember();
        }
    }

    fn tuple(&mut self, items: &[Py]) {
        let marked = items.len() > 3;
        if marked {
            self.out.push(b'(');
        }
        items.iter().for_each(|item| self.write(item));
        match items.len() {
            0 => return self.out.push(b')'),
            n @ 1..=3 => self.out.push(0x84 + n as u8),
            _ => self.out.push(b't'),
        }
        self.remember();
    }

    fn key(&mut self, key: &str) {
        match self.keys.get(key) {
            Some(&index) => self.refer(index),
            None => {
                self.text(key);
                self.keys.insert(key.to_owned(), self.memo_len);
                self.remember();
            }
        }
    }

    fn text(&mut self, text: &str) {
        match u8::try_from(text.len()) {
            Ok(n) if self.dialect.protocol >= 4 => self.out.extend([0x8c, n]),
            _ => {
                self.out.push(b'X');
                self.out.extend((text.len() as u32).to_le_bytes());
            }
        }
        self.out.extend(text.as_bytes());
    }

    fn int(&mut self, n: i128) {
        let cpp = self.dialect.author == Author::Cpp;
        if let Ok(n) = u8::try_from(n) {
            self.out.extend([b'K', n]);
        } else if let Ok(n) = u16::try_from(n) {
            self.out.push(b'M');
            self.out.extend(n.to_le_bytes());
        } else if let Ok(n) = i32::try_from(n) {
            self.out.push(b'J');
            self.out.extend(n.to_le_bytes());
        } else {
            // CPython writes as few bytes as can hold the number with its sign; C++ always eight.
            let bytes = n.to_le_bytes();
            let fits = |len: &usize| *len == 16 || n >> (len * 8 - 1) == n >> 127;
            let len = if cpp { 8 } else { (1..=16).find(fits).unwrap() };
            self.out.extend([0x8a, len as u8]);
            self.out.extend(&bytes[..len]);
        }
    }

    fn refer(&mut self, index: u32) {
        match u8::try_from(index) {
            Ok(index) => self.out.extend([b'h', index]),
            Err(_) => {
                self.out.push(b'j');
                self.out.extend(index.to_le_bytes());
            }
        }
    }

    fn remember(&mut self) {
        match u8::try_from(self.memo_len) {
            _ if self.dialect.protocol >= 4 => self.out.push(0x94),
            Ok(index) => self.out.extend([b'q', index]),
            Err(_) => {
                self.out.push(b'r');
                self.out.extend(self.memo_len.to_le_bytes());
            }
        }
        self.memo_len += 1;
    }
}

/// The JSON of `root`, tuples as arrays, with a space here and there.
pub fn json(root: &Py) -> String {
    match root {
        Py::None => "null".to_owned(),
        Py::Bool(b) => b.to_string(),
        Py::Int(n) => n.to_string(),
        Py::Float(x) => format!("{x:?}"),
        Py::Str(text) => json_string(text),
        Py::List(items) | Py::Tuple(items) => {
            let items: Vec<String> = items.iter().map(json).collect();
            format!("[{}]", items.join(", "))
        }
        Py::Dict(entries) => {
            let entries: Vec<String> = entries
                .iter()
                .map(|(key, value)| format!("{}: {}", json_string(key), json(value)))
                .collect();
            format!("{{{}}}", entries.join(",\n "))
        }
        Py::Shared(object) => json(object),
    }
}

fn json_string(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c.is_ascii() => out.push(c),
            c => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    out.push('"');
    out
}
