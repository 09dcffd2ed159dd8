//! A connection that writes down every byte that the server sends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tonic::transport::Channel;

/// Stands between a client and the server. Bodies are not compressed, so texts are there in clear.
pub(crate) struct Recorder {
    pub(crate) channel: Channel,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Recorder {
    pub(crate) async fn before(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let target = server.trim_start_matches("http://").to_owned();
        let sent = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&sent);
        tokio::spawn(async move {
            let (client, _) = listener.accept().await.expect("a client");
            let server = TcpStream::connect(target).await.expect("the server");
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            let up = tokio::io::copy(&mut from_client, &mut to_server);
            let down = async {
                let mut buffer = vec![0; 64 << 10];
                loop {
                    let n = from_server.read(&mut buffer).await.unwrap_or(0);
                    if n == 0 {
                        break;
                    }
                    record.lock().expect("whole").extend_from_slice(&buffer[..n]);
                    if to_client.write_all(&buffer[..n]).await.is_err() {
                        break;
                    }
                }
            };
            let _ = tokio::join!(up, down);
        });
        let channel = Channel::from_shared(address).expect("an address").connect().await;
        Self { channel: channel.expect("connects"), sent }
    }

    /// What has been sent: as it came, and once more the bodies of each call put together, since a
    /// body may be cut into frames.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut all = self.sent.lock().expect("whole").clone();
        let mut bodies: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        let mut rest = all.as_slice();
        while let Some((head, tail)) = rest.split_at_checked(9) {
            let length =
                usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
            let stream = u32::from_be_bytes([head[5] & 0x7f, head[6], head[7], head[8]]);
            let Some((payload, next)) = tail.split_at_checked(length) else { break };
            if head[3] == 0 {
                bodies.entry(stream).or_default().extend_from_slice(payload);
            }
            rest = next;
        }
        all.extend(bodies.into_values().flatten());
        all
    }
}
