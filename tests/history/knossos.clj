;; Checks a history that "go run ./history/check -edn OUT FILE" wrote, with Knossos: tests/README.md.
(require '[clojure.edn :as edn] '[clojure.java.io :as io]
         '[knossos.history :as history] '[knossos.model :as model] '[knossos.wgl :as wgl])

(defrecord Guarded [owner largest seen]
  knossos.model.Model
  (step [this op]
    (let [{:keys [client fence]} (:value op)]
      (case (:f op)
        :acquire (if (or owner (< 0 fence (inc largest)))
                   (model/inconsistent "held, or a small token")
                   (assoc this :owner client :largest (max fence largest)))
        :release (if (= owner client) (assoc this :owner nil) (model/inconsistent "not the holder"))
        (:read :write) (if (<= seen fence largest) (assoc this :seen fence) (model/inconsistent "stale"))
        :refuse (if (< fence seen) this (model/inconsistent "refused, and not stale"))))))

(let [ops (with-open [r (java.io.PushbackReader. (io/reader "OUT"))]
            (doall (take-while some? (repeatedly #(edn/read {:eof nil} r)))))]
  (doseq [[k ops] (->> ops (filter (comp #{:acquire :release :read :write :refuse} :f)) (group-by (comp first :value)))]
    (println k (:valid? (wgl/analysis (Guarded. nil 0 0) (history/parse-ops (map #(update % :value second) ops)))))))
(shutdown-agents)
