//! An answer in pages that fit into a context window.

use crate::system::plain::marked;
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;
use serde_json::{Map, Value, json};
use trace::clip::clipped;

/// Largest page in bytes, text and document together.
pub const MOST: usize = 16 << 10;
/// Bytes of one text in a document.
const LONGEST: usize = 512;
/// What follows an introduction that is too long.
const CUT: &str = "\n(The rest of this text is left out: it is too long for a page.)\n";
/// Bytes reserved for the braces, the offset and the end of the text.
const SPARE: usize = 512;

/// An introduction, and a list; a page has a part of the list.
#[derive(Debug, Default)]
pub struct Answer {
    /// Text to read, on the first page.
    pub text: String,
    /// The same as fields, on every page.
    pub fields: Map<String, Value>,
    /// The list.
    pub rows: Vec<Row>,
    /// The address of a page that shows it.
    pub link: Option<String>,
}

/// An entry of a list.
#[derive(Debug)]
pub struct Row {
    /// Text to read: whole lines.
    pub text: String,
    /// A value for programs.
    pub value: Value,
}

impl Row {
    /// An entry.
    pub fn new(text: String, value: &impl Serialize) -> Row {
        Row {
            text: marked(&text).into_owned(),
            value: document(value),
        }
    }

    /// A section of a page, which a program has with its whole text.
    pub fn section(title: &str, text: &str) -> Row {
        let text = marked(text).into_owned();
        Row {
            value: json!({"title": title, "text": text}),
            text,
        }
    }
}

/// A document whose texts are short enough for a page.
pub fn document(value: &impl Serialize) -> Value {
    let mut value = serde_json::to_value(value).expect("answers are plain data");
    shorten(&mut value);
    value
}

fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > LONGEST => *text = clipped(text, LONGEST).into_owned(),
        Value::Array(all) => all.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    text: String,
    fields: Map<String, Value>,
}

impl Answer {
    /// A field of the document.
    pub fn field(&mut self, name: &str, value: &impl Serialize) {
        self.fields.insert(name.to_owned(), document(value));
    }

    /// The page that begins with this row: as many rows as fit, but at least one.
    pub fn page(self, offset: usize) -> Page {
        let total = self.rows.len();
        // Names in a recording come from its author, so they are made plain.
        let mut text = match offset {
            0 => marked(&self.text).into_owned(),
            _ => String::new(),
        };
        let mut fields = self.fields;
        if let Some(link) = &self.link {
            fields.insert("link".to_owned(), Value::from(link.as_str()));
        }
        // The introduction takes at most half of a page.
        if text.len() > MOST / 4 {
            text = clipped(&text, MOST / 4 - CUT.len()).into_owned() + CUT;
        }
        if length(&fields) > MOST / 4 {
            fields.retain(|_, value| length(value) <= LONGEST);
        }
        let mut used = text.len() + length(&fields) + SPARE;
        let mut items = Vec::new();
        for row in self.rows.into_iter().skip(offset) {
            let takes = row.text.len() + length(&row.value) + 1;
            if used + takes > MOST && !items.is_empty() {
                break;
            }
            let row = if used + takes > MOST {
                cut(&row, MOST - used)
            } else {
                row
            };
            used += row.text.len() + length(&row.value) + 1;
            text += &row.text;
            items.push(row.value);
        }
        if offset > 0 && items.is_empty() {
            text += &match total {
                1 => "There is no more: the answer has 1 row.\n".to_owned(),
                n => format!("There is no more: the answer has {n} rows.\n"),
            };
        }
        let next = Some(offset + items.len()).filter(|next| *next < total);
        if let Some(next) = next {
            let left = total - next;
            text += &format!("\n{left} more: ask again with offset {next}.\n");
        }
        if let Some(link) = self.link {
            text += &format!("\n{link}\n");
        }
        if total > 0 {
            fields.insert("items".to_owned(), Value::Array(items));
            fields.insert("offset".to_owned(), Value::from(offset));
            fields.insert("total".to_owned(), Value::from(total));
            fields.insert("next".to_owned(), Value::from(next));
        }
        Page { text, fields }
    }
}

/// For a row that is larger than a page: the beginning of its text.
fn cut(row: &Row, room: usize) -> Row {
    Row {
        text: clipped(&row.text, room / 2).into_owned() + "\n",
        value: Value::from("left out: too large for a page"),
    }
}

fn length(value: &impl Serialize) -> usize {
    serde_json::to_string(value).map_or(0, |text| text.len())
}

impl Page {
    /// In the form of the protocol.
    pub fn into_result(self) -> CallToolResult {
        let mut result = CallToolResult::success(vec![ContentBlock::text(self.text)]);
        result.structured_content = Some(Value::Object(self.fields));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // Few cases, because every page builds the answer again.
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Whatever an answer contains, every page is small, and together they have each row once.
        #[test]
        fn pages_are_small_and_hold_every_row_once(
            head in 0..12_000_usize,
            rows in prop::collection::vec(0..20_000_usize, 0..12),
        ) {
            let answer = || {
                let mut answer = Answer {
                    text: "é".repeat(head),
                    link: Some("http://127.0.0.1:7878/runs/run_1".to_owned()),
                    ..Answer::default()
                };
                answer.field("why", &"w".repeat(head));
                let row = |(at, size): (usize, &usize)| {
                    let text = format!("{at} {}\n", "x".repeat(*size));
                    Row::new(text, &vec![at; size / 8])
                };
                answer.rows = rows.iter().enumerate().map(row).collect();
                answer
            };
            let (mut offset, mut seen) = (0, 0);
            loop {
                let page = answer().page(offset);
                let size = page.text.len() + length(&page.fields);
                prop_assert!(size <= MOST, "{size} bytes at {offset}");
                let items = page.fields.get("items").and_then(Value::as_array);
                seen += items.map_or(0, Vec::len);
                match page.fields.get("next").and_then(Value::as_u64) {
                    Some(next) => {
                        prop_assert!(next as usize > offset);
                        offset = next as usize;
                    }
                    None => break,
                }
            }
            prop_assert_eq!(seen, rows.len());
            if !rows.is_empty() {
                let past = answer().page(rows.len());
                prop_assert!(past.text.starts_with("There is no more"), "{}", past.text);
            }
        }
    }
}
