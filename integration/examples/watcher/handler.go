package watcher

import (
	"encoding/json"
	"fmt"
	"net/http"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// page shows the documents, and changes them with the events.
const page = `<!doctype html><title>Read models</title><pre></pre><script>
const documents = new Map(), source = new EventSource("changes"), id = (d) => JSON.stringify(d._id);
const show = () => { document.querySelector("pre").textContent = [...documents.values()].map((d) => JSON.stringify(d)).join("\n"); };
source.addEventListener("all", (e) => { documents.clear(); JSON.parse(e.data).forEach((d) => documents.set(id(d), d)); show(); });
source.addEventListener("document", (e) => { const d = JSON.parse(e.data); documents.set(id(d), d); show(); });
source.addEventListener("deleted", (e) => { documents.delete(id(JSON.parse(e.data))); show(); });
</script>`

// Handler serves a page that shows a copy, and the changes of it at /changes.
func Handler(models *Copy) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, page)
	})
	mux.HandleFunc("GET /changes", func(w http.ResponseWriter, r *http.Request) {
		changes, stop := models.Watch()
		defer stop()
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			select {
			case <-r.Context().Done():
				return
			case change, ok := <-changes:
				if !ok {
					return // too slow: the browser connects again and gets all documents
				}
				if send(w, change) != nil || http.NewResponseController(w).Flush() != nil {
					return
				}
			}
		}
	})
	return mux
}

// send writes a change as a server-sent event, with documents in relaxed Extended JSON.
func send(w http.ResponseWriter, change Change) error {
	var err error
	switch {
	case change.Document != nil:
		_, err = fmt.Fprintf(w, "event: document\ndata: %s\n\n", text(change.Document))
	case change.Deleted != nil:
		_, err = fmt.Fprintf(w, "event: deleted\ndata: %s\n\n", text(change.Deleted))
	default:
		all := make([]json.RawMessage, len(change.All))
		for i, d := range change.All {
			all[i] = text(d)
		}
		var data []byte
		if data, err = json.Marshal(all); err == nil {
			_, err = fmt.Fprintf(w, "event: all\ndata: %s\n\n", data)
		}
	}
	return err
}

func text(d bson.Raw) json.RawMessage {
	data, err := bson.MarshalExtJSON(d, false, false)
	if err != nil {
		return json.RawMessage("null") // no server sends a document that is not valid
	}
	return data
}
