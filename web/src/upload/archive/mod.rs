//! Archives of snapshots, unpacked in the browser: tar, plain or packed, and zip.
//!
//! [`tar`] and [`zip`] say what is where; this module reads those bytes of the file. A file
//! in a plain tar is a part of the archive, so nothing is copied. A packed file of a zip is
//! unpacked when its turn comes.

use js_sys::{Promise, Uint8Array};
use presentation::upload::MOST;
use presentation::upload::archive::{GZIP_MAGIC, ZSTD_MAGIC, is_shown, stem, tar, zip};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use web_sys::{Blob, ReadableStream, ReadableStreamDefaultReader, ReadableWritablePair, Response};

#[wasm_bindgen]
extern "C" {
    // The type of `web-sys` knows only three formats; a browser may know more.
    type DecompressionStream;
    #[wasm_bindgen(constructor, catch)]
    fn new(format: &str) -> Result<DecompressionStream, JsValue>;
}

/// A file to send, or a part of an archive.
#[derive(Clone)]
pub struct Source {
    /// Its path, below the folder or the archive that it comes from.
    pub path: String,
    /// Bytes when it is unpacked.
    pub size: u64,
    /// Whether it is a part of a zip, packed with deflate.
    pub is_packed: bool,
    /// The archive that it was in.
    pub archive: Option<String>,
    blob: Blob,
}

impl Source {
    /// All of these bytes, as they are.
    pub fn whole(path: String, blob: Blob) -> Source {
        Source {
            path,
            size: blob.size() as u64,
            is_packed: false,
            archive: None,
            blob,
        }
    }

    /// Its name without folders.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The bytes to send.
    ///
    /// # Errors
    /// Why it cannot be unpacked, as a sentence.
    pub async fn bytes(&self) -> Result<Blob, String> {
        match self.is_packed {
            false => Ok(self.blob.clone()),
            true => unpacked(&self.blob, "deflate-raw").await,
        }
    }

    /// The archive that it is, if it is one. This reads only its first bytes.
    ///
    /// # Errors
    /// When it cannot be read, as a sentence.
    pub async fn archive(&self) -> Result<Option<Archive<'_>>, String> {
        if self.is_packed {
            return Ok(None);
        }
        let kind = kind_of(&self.blob).await?;
        Ok(kind.map(|kind| Archive { file: self, kind }))
    }
}

/// An archive.
pub struct Archive<'s> {
    file: &'s Source,
    kind: Kind,
}

impl Archive<'_> {
    /// The files in it; their paths begin with the archive's name. `None` for a model that was
    /// saved with `torch.save`: that is a zip, too.
    ///
    /// # Errors
    /// Why it cannot be unpacked, as a sentence.
    pub async fn members(&self) -> Result<Option<Vec<Source>>, String> {
        let blob = &self.file.blob;
        let mut found = Found {
            archive: self.file.name(),
            files: Vec::new(),
        };
        match self.kind {
            Kind::Tar => untar(blob, &mut found).await?,
            Kind::Packed(format) => untar(&unpacked(blob, format).await?, &mut found).await?,
            Kind::Zip => unzip(blob, &mut found).await?,
        }
        if found.files.iter().any(|file| file.name() == "data.pkl") {
            return Ok(None);
        }
        match found.files.is_empty() {
            true => Err("It holds no files.".to_owned()),
            false => Ok(Some(found.files)),
        }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Zip,
    Tar,
    /// A tar, packed in this format.
    Packed(&'static str),
}

/// The kind of archive; `None` for all other files.
async fn kind_of(file: &Blob) -> Result<Option<Kind>, String> {
    let head = read(file, 0, tar::BLOCK).await?;
    let format = if head.starts_with(&zip::MAGIC) {
        return Ok(Some(Kind::Zip));
    } else if tar::is_tar(&head) {
        return Ok(Some(Kind::Tar));
    } else if head.starts_with(&GZIP_MAGIC) {
        "gzip"
    } else if head.starts_with(&ZSTD_MAGIC) {
        "zstd"
    } else {
        return Ok(None);
    };
    // Most packed files are single snapshots; the server unpacks those.
    let Ok(unpacked) = stream(file, format) else {
        return Ok(None);
    };
    let head = first_chunk(unpacked).await;
    let is_tar = head.is_ok_and(|head| tar::is_tar(&head));
    Ok(is_tar.then_some(Kind::Packed(format)))
}

/// The files of an archive, as far as they are found.
struct Found<'a> {
    /// Its name.
    archive: &'a str,
    files: Vec<Source>,
}

impl Found<'_> {
    /// Adds a file, unless it is hidden.
    fn add(&mut self, path: &str, blob: Blob, deflated: Option<u64>) -> Result<(), String> {
        if !is_shown(path) {
            return Ok(());
        }
        if self.files.len() >= MOST {
            return Err(format!(
                "It holds more than {MOST} files; send fewer at a time."
            ));
        }
        let source = Source::whole(format!("{}/{path}", stem(self.archive)), blob);
        self.files.push(Source {
            size: deflated.unwrap_or(source.size),
            is_packed: deflated.is_some(),
            archive: Some(self.archive.to_owned()),
            ..source
        });
        Ok(())
    }
}

async fn untar(archive: &Blob, found: &mut Found<'_>) -> Result<(), String> {
    let mut names = tar::Names::default();
    let mut at = 0;
    loop {
        let block = read(archive, at, tar::BLOCK).await?;
        let Some(tar::Entry { kind, size }) = tar::entry(&block, at, &mut names)? else {
            return Ok(());
        };
        let data = at + tar::BLOCK;
        let end = data.saturating_add(size);
        if end > archive.size() as u64 {
            return Err(tar::cut(at));
        }
        match kind {
            tar::Kind::File(path) => found.add(&path, part(archive, data, end)?, None)?,
            tar::Kind::Names => names.read(&read(archive, data, size).await?, &block),
            tar::Kind::Other => {}
        }
        at = end.next_multiple_of(tar::BLOCK);
    }
}

async fn unzip(archive: &Blob, found: &mut Found<'_>) -> Result<(), String> {
    let from = (archive.size() as u64).saturating_sub(zip::TAIL);
    let tail = read(archive, from, zip::TAIL).await?;
    let mut place = zip::directory(&tail, from)?;
    if let zip::Place::Zip64(at) = place {
        place = zip::directory64(&read(archive, at, zip::END64).await?, at)?;
    }
    let zip::Place::Here { at, size } = place else {
        return Err(zip::damaged(from));
    };
    for member in zip::members(&read(archive, at, size).await?, at)? {
        let head = read(archive, member.header_at, zip::LOCAL).await?;
        let data = zip::data_at(&head, member.header_at)?;
        let packed = part(archive, data, data.saturating_add(member.packed))?;
        let size = (member.method == zip::Method::Deflated).then_some(member.size);
        found.add(&member.path, packed, size)?;
    }
    Ok(())
}

fn part(of: &Blob, from: u64, to: u64) -> Result<Blob, String> {
    of.slice_with_f64_and_f64(from as f64, to as f64)
        .map_err(told)
}

/// At most so many bytes from there on.
async fn read(from: &Blob, at: u64, bytes: u64) -> Result<Vec<u8>, String> {
    let part = part(from, at, at.saturating_add(bytes))?;
    let buffer = settled(part.array_buffer()).await?;
    Ok(Uint8Array::new(&buffer).to_vec())
}

fn stream(packed: &Blob, format: &str) -> Result<ReadableStream, JsValue> {
    let unpack: ReadableWritablePair = DecompressionStream::new(format)?.unchecked_into();
    Ok(packed.stream().pipe_through(&unpack))
}

async fn first_chunk(from: ReadableStream) -> Result<Vec<u8>, String> {
    let reader: ReadableStreamDefaultReader = from.get_reader().unchecked_into();
    let chunk = settled(reader.read()).await?;
    // The rest is not wanted; an error means that there is none.
    let _ = reader.cancel();
    let bytes = js_sys::Reflect::get(&chunk, &"value".into()).map_err(told)?;
    Ok(bytes
        .dyn_into::<Uint8Array>()
        .map(|bytes| bytes.to_vec())
        .unwrap_or_default())
}

async fn unpacked(packed: &Blob, format: &str) -> Result<Blob, String> {
    let blob = || {
        let stream = stream(packed, format)?;
        Response::new_with_opt_readable_stream(Some(&stream))?.blob()
    };
    let blob = settled(blob().map_err(told)?).await?;
    Ok(blob.unchecked_into())
}

async fn settled(promise: Promise) -> Result<JsValue, String> {
    JsFuture::from(promise).await.map_err(told)
}

/// What the browser says.
fn told(error: JsValue) -> String {
    let message = error.dyn_ref::<js_sys::Error>().map(js_sys::Error::message);
    format!(
        "The browser cannot unpack it: {}",
        message.unwrap_or_default().as_string().unwrap_or_default()
    )
}
