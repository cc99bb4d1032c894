from crossgcn.data.datasets.catalogue import CATALOGUE as CATALOGUE
from crossgcn.data.datasets.catalogue import DATASET_NAMES as DATASET_NAMES
from crossgcn.data.datasets.catalogue import TABLES as TABLES
from crossgcn.data.datasets.catalogue import available as available
from crossgcn.data.datasets.catalogue import fetch as fetch
from crossgcn.data.datasets.generated import plant_crosses as plant_crosses
from crossgcn.data.datasets.generated import reddit400k_shaped as reddit400k_shaped
from crossgcn.data.datasets.load import load_dataset as load_dataset
from crossgcn.data.datasets.load import read_planetoid as read_planetoid
from crossgcn.data.datasets.real import load_real as load_real
from crossgcn.data.datasets.real import read_real as read_real
from crossgcn.data.features import csr_tensor as csr_tensor
from crossgcn.data.features import row_normalise as row_normalise
from crossgcn.data.graph import canonical_graph as canonical_graph
from crossgcn.data.graph import read_graph as read_graph
from crossgcn.data.graph import save_graph as save_graph
from crossgcn.data.splits import Split as Split
from crossgcn.data.splits import make_splits as make_splits

__all__: list[str]
