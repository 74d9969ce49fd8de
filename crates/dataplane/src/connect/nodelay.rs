//! A Kubernetes client with `TCP_NODELAY`. kube's own leaves Nagle's algorithm on, which together with delayed ACKs adds 40 ms to
//! the small packets of every request through a port-forward.

use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, ConfigExt as _},
};
use tower::{BoxError, Layer as _, ServiceExt as _, util::option_layer};

/// A client for port-forwards. It does not retry; the dialer does.
pub fn nodelay_client(config: Config) -> Result<Client, kube::Error> {
    if config.proxy_url.is_some() {
        // kube handles proxies.
        return Client::try_from(config);
    }
    // As kube does; fails harmlessly if a provider is already installed.
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
