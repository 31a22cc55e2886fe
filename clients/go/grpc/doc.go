// Package waterclockgrpc limits calls of google.golang.org/grpc with
// Waterclock, in servers and in clients.
//
//	limit := waterclockgrpc.UnaryServerInterceptor(client, "api", waterclockgrpc.KeyByPeer)
//	server := grpc.NewServer(grpc.UnaryInterceptor(limit))
//
// A refused call fails with codes.ResourceExhausted. A call for which there is
// no decision fails with codes.Unavailable if the server cannot be asked, and
// codes.Internal if Waterclock rejects the question.
package waterclockgrpc
