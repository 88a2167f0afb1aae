package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"time"
)

// An entry is a file of an archive or a package: one on the disk, or a text.
type entry struct {
	name string
	mode os.FileMode
	file string
	text []byte
}

func (e entry) bytes() ([]byte, error) {
	if e.file == "" {
		return e.text, nil
	}
	return os.ReadFile(e.file)
}

// archive writes a tar.gz that depends on nothing but its arguments.
func archive(name, folder string, files []entry, when time.Time) error {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, f := range files {
		data, err := f.bytes()
		if err != nil {
			return err
		}
		h := &tar.Header{Name: folder + "/" + f.name, Mode: int64(f.mode), Size: int64(len(data)), ModTime: when, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	data, err := zipped(packed.Bytes())
	if err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}

// zipped is "gzip -9n".
func zipped(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
