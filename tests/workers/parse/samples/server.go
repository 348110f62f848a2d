// Package server answers requests over HTTP.
package server

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"example.com/app/store"
)

// ErrClosed is returned by a server that was shut down.
var ErrClosed = errors.New("server: closed")

const (
	defaultTimeout = 30 * time.Second
	maxBodyBytes   = 1 << 20
)

// Handler serves one route.
type Handler interface {
	Serve(ctx context.Context, w http.ResponseWriter, r *http.Request) error
}

// Server routes requests to handlers and counts them.
type Server struct {
	mu       sync.RWMutex
	routes   map[string]Handler
	store    *store.Store
	requests uint64
	closed   bool
}

// New makes a server without routes.
func New(s *store.Store) *Server {
	return &Server{routes: make(map[string]Handler), store: s}
}

// Handle adds a route. The last one added for a path counts.
func (s *Server) Handle(path string, h Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routes[path] = h
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, err := s.lookup(r.URL.Path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if h == nil {
		http.NotFound(w, r)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), defaultTimeout)
	defer cancel()
	r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
	if err := h.Serve(ctx, w, r); err != nil {
		writeError(w, err)
	}
}

func (s *Server) lookup(path string) (Handler, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	s.requests++
	return s.routes[path], nil
}

// Close refuses further requests. Those that run are not waited for.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

func writeError(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		http.Error(w, "timed out", http.StatusGatewayTimeout)
	case errors.Is(err, store.ErrNotFound):
		http.Error(w, "not found", http.StatusNotFound)
	default:
		http.Error(w, "internal error", http.StatusInternalServerError)
	}
}
