//! A client whose packets do not wait for each other. kube's own leaves that to TCP, which holds a small packet back until the
//! one before it was acknowledged; a kernel takes 40 ms for that, and every request through a port-forward is small packets.

use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, ConfigExt as _},
};
use tower::{BoxError, Layer as _, ServiceExt as _, util::option_layer};

/// A client for a tunnel through the API server. It tries nothing again: whoever dials does.
pub fn prompt(config: Config) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        // What becomes of proxies is kube's to say.
        return Client::try_from(config);
    }
    // As kube does; somebody may have done it before.
    let _is_there = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(config.connect_timeout);
    let connector = config.rustls_https_connector_with_connector(tcp)?;
    let http: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new()).build(connector);
    let http = http.map_err(BoxError::from);
    let signed = option_layer(config.auth_layer()?).layer(config.extra_headers_layer()?.layer(http));
    let service = config.base_uri_layer().layer(signed);
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}
