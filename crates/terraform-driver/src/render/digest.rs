//! Digests of the rendered files.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::{
    LOCK_FILE,
    request::{FileContents, ModuleFetch},
};
use crate::hex::hex;

pub(super) struct RenderDigests {
    pub(super) all: String,
    pub(super) init: String,
}

pub(super) fn digest_files(
    files: &BTreeMap<String, FileContents>,
    root: &str,
    fetch: Option<&ModuleFetch>,
) -> RenderDigests {
    let matters_to_init = |path: &str| {
        [".tf", ".tf.json", ".tofu", ".tofu.json", LOCK_FILE].iter().any(|end| path.ends_with(end))
    };
    RenderDigests {
        all: digest(files.iter(), root, fetch),
        init: digest(files.iter().filter(|(path, _)| matters_to_init(path)), root, fetch),
    }
}

fn digest<'a>(
    files: impl Iterator<Item = (&'a String, &'a FileContents)>,
    root: &str,
    fetch: Option<&ModuleFetch>,
) -> String {
    let mut hash = Sha256::new();
    // Prefix each field with its length, so that no two sequences of fields collide.
    let mut field = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    field(root.as_bytes());
    field(fetch.map_or("", |fetch| fetch.source.address()).as_bytes());
    for (path, contents) in files {
        field(path.as_bytes());
        field(&contents.bytes);
    }
    hex(hash.finalize())
}
