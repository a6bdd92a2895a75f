//! Beside the loop: sends an image to the testbed's registry.
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use futures::{Stream, stream};
use oci_client::client::{ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::{Client, Reference};

use crate::image::{BuiltImage, Digest, MANIFEST};

/// How much of a layer is in memory at a time.
const CHUNK: u64 = 1 << 20;

/// Why an image could not be pushed.
#[derive(Debug, thiserror::Error)]
#[error("pushing {image} to the registry {registry} failed: could not {attempt}")]
pub struct PushError {
    attempt: &'static str,
    image: String,
    registry: String,
    source: OciDistributionError,
}

/// An image that a registry has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    /// Under which name the registry has it: `HOST:PORT/REPOSITORY:TAG`.
    pub reference: String,
    /// The digest of its manifest.
    pub digest: Digest,
    /// How many bytes of blobs were sent; none if the registry had them all.
    pub sent: u64,
}

/// Pushes an image to a registry at `HOST:PORT` that speaks plain HTTP. The image's own host is left away, as a mirror wants it.
pub async fn push(image: &BuiltImage, registry: &str) -> Result<Pushed, PushError> {
    let name = image.name();
    let failed = |attempt| {
        move |source| PushError { attempt, image: name.to_string(), registry: registry.to_owned(), source }
    };
    let client = client(registry).map_err(failed("prepare the push"))?;
    let to = Reference::with_tag(registry.to_owned(), name.repository().to_owned(), name.tag().to_owned());
    let mut sent = 0;

    let digest = image.layer_digest().as_str();
    if !client.blob_exists(&to, digest).await.map_err(failed("look for the layer"))? {
        let size = image.layer_size();
        let file = image.layer_file().map_err(|source| failed("read the layer")(source.into()))?;
        let chunks = chunks(file, size);
        client.push_blob_stream(&to, chunks, digest, Some(size)).await.map_err(failed("push the layer"))?;
        sent += size;
    }
    let config = image.config();
    let digest = config.digest.as_str();
    if !client.blob_exists(&to, digest).await.map_err(failed("look for the configuration"))? {
        client
            .push_blob(&to, config.bytes.clone(), digest)
            .await
            .map_err(failed("push the configuration"))?;
        sent += config.bytes.len() as u64;
    }
    // Last, so that whoever sees the tag can pull all of it. The bytes as they are: their digest is the image's.
    push_manifest(&client, &to, image).await.map_err(failed("push the manifest"))?;
    Ok(Pushed { reference: to.whole(), digest: image.digest().clone(), sent })
}

async fn push_manifest(
    client: &Client,
    to: &Reference,
    image: &BuiltImage,
) -> Result<String, OciDistributionError> {
    let content_type =
        MANIFEST.parse().map_err(|error| OciDistributionError::GenericError(Some(format!("{error}"))))?;
    client.push_manifest_raw(to, image.manifest().bytes.clone(), content_type).await
}

fn client(registry: &str) -> Result<Client, OciDistributionError> {
    let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
    Client::try_from(ClientConfig {
        protocol: ClientProtocol::Http,
        // One request with a known length, instead of one per few megabytes.
        use_monolithic_push: true,
        connect_timeout: Some(Duration::from_secs(5)),
        read_timeout: Some(Duration::from_mins(1)),
        // A proxy of the caller's environment would be asked for the loopback address too. A closed port takes its place, so
        // that nothing but the registry is reached.
        http_proxy: Some("http://127.0.0.1:1".to_owned()),
        https_proxy: Some("http://127.0.0.1:1".to_owned()),
        no_proxy: Some(host.to_owned()),
        ..ClientConfig::default()
    })
}

/// The file's bytes, a chunk at a time. By position, because clones of one open file share where they are.
fn chunks<B>(file: File, size: u64) -> impl Stream<Item = Result<B, OciDistributionError>>
where
    B: From<Vec<u8>> + Send + 'static,
{
    stream::try_unfold((file, 0), move |(file, at)| async move {
        if at >= size {
            return Ok(None);
        }
        let (file, chunk) = tokio::task::spawn_blocking(move || {
            let length = usize::try_from(CHUNK.min(size - at)).map_err(io::Error::other)?;
            let mut chunk = vec![0; length];
            file.read_exact_at(&mut chunk, at)?;
            Ok::<_, io::Error>((file, chunk))
        })
        .await
        .map_err(io::Error::other)??;
        let next = at + chunk.len() as u64;
        Ok(Some((B::from(chunk), (file, next))))
    })
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt as _;

    use super::*;
    use crate::image::Image;

    #[tokio::test]
    async fn a_layer_is_read_whole_and_in_pieces() {
        let content: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let image = Image::named("a").text(content, "/x").build().unwrap();
        let size = image.layer_size();
        let all = |file| chunks::<Vec<u8>>(file, size).try_collect::<Vec<_>>();
        // At the same time, as two pushes of one image would.
        let (one, other) = tokio::join!(all(image.layer_file().unwrap()), all(image.layer_file().unwrap()));
        let one = one.unwrap();
        assert_eq!(one.len(), 3);
        assert_eq!(one.concat().len() as u64, size);
        assert_eq!(one, other.unwrap());
    }

    #[tokio::test]
    async fn a_registry_that_is_not_there_is_named() {
        let image = Image::named("quay.io/coreos/etcd:v1").text("1", "/x").build().unwrap();
        // A port that was free a moment ago.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        let error = push(&image, &address).await.unwrap_err().to_string();
        let expected = "failed: could not look for the layer";
        assert_eq!(error, format!("pushing quay.io/coreos/etcd:v1 to the registry {address} {expected}"));
    }
}
