package waterclock_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	waterclock "github.com/waterclock/waterclock/clients/go"
	"github.com/waterclock/waterclock/clients/go/internal/testserver"
)

func TestTLS(t *testing.T) {
	folder := t.TempDir()
	authority := writeCertificate(t, folder)
	configuration := filepath.Join(folder, "waterclock.toml")
	writeFile(t, configuration, []byte(`
[server]
tls = { cert = "cert.pem", key = "key.pem" }
[policies.burst]
limits = ["5/h"]
`))
	server, err := testserver.Start(configuration)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	for _, transport := range transports {
		t.Run(transport.name, func(t *testing.T) {
			url := strings.NewReplacer("http:", "https:", "redis:", "rediss:").Replace(transport.url(server))
			ctx := within(t, time.Minute)
			trusting := newClient(t, url, waterclock.WithTLSConfig(&tls.Config{RootCAs: authority}))
			if decision, err := trusting.Check(ctx, "burst", transport.name); err != nil || !decision.Allowed {
				t.Errorf("got %v and the error %v", decision.Allowed, err)
			}
			if decision, err := trusting.Wait(ctx, "burst", transport.name, 0); err != nil || !decision.Allowed {
				t.Errorf("waiting: got %v and the error %v", decision.Allowed, err)
			}
			if _, err := newClient(t, url).Check(ctx, "burst", "alice"); !errors.Is(err, waterclock.ErrUnavailable) {
				t.Errorf("an unknown authority: got the error %v", err)
			}
		})
	}
}

// writeCertificate writes a certificate for 127.0.0.1 and returns its authority.
func writeCertificate(t *testing.T, folder string) *x509.CertPool {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	writeFile(t, filepath.Join(folder, "cert.pem"), text)
	writeFile(t, filepath.Join(folder, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return pool
}

func writeFile(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
