//! What writes the requests to a server.

use crate::io::peer_handle::PeerHandle;
use crate::proxy::Route;
use crate::target::HttpEndpoint;
use corelane_transport::http::client::request_writer::RequestWriter;

/// Returns what writes the requests to an endpoint.
pub fn request_writer(endpoint: &HttpEndpoint, handle: &PeerHandle) -> RequestWriter {
    let (scheme, authority) = (endpoint.scheme(), endpoint.authority());
    let writer = RequestWriter::new(scheme, &authority, &endpoint.path, &handle.extra_fields);
    match handle.connect.proxies.route(&handle.target) {
        Route::Forward(proxy) => writer.for_proxy(proxy.authorization()),
        Route::Direct | Route::Tunnel(_) => writer,
    }
}
